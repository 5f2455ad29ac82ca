//! Names of unsupported files and formats, with the remedy.

/// Returns the kind of a file and the remedy, if its first bytes identify it.
pub(super) fn describe(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    let text = bytes.trim_ascii_start();
    let has = |part: &[u8]| {
        bytes.get(..bytes.len().min(4096)).unwrap_or(bytes).windows(part.len()).any(|one| one == part)
    };
    Some(match bytes {
        [0x7f, b'E', b'L', b'F', ..] => (
            "this is a program or a library, not a profile",
            "`sigprof record PROGRAM` records it; a program before a profile, or --binary PROGRAM, names the profile's program",
        ),
        [b'P', b'E', b'R', b'F', b'I', b'L', b'E', b'2', ..]
        | [b'2', b'E', b'L', b'I', b'F', b'R', b'E', b'P', ..] => {
            ("this is a perf.data file", "`perf script -i FILE | sigprof top -` shows it")
        }
        [b'g', b'm', b'o', b'n', ..] => {
            ("this is a gmon.out file of gprof", "`sigprof gprof PROGRAM gmon.out` shows it")
        }
        _ if bytes.starts_with(b"# callgrind format") || has(b"\nevents: ") => {
            ("this is a callgrind file", "KCachegrind and callgrind_annotate read it")
        }
        _ if is_json(text) && has(b"speedscope.app") => (
            "this is a speedscope file",
            "open it at https://www.speedscope.app, or give sigprof the profile that it was made from",
        ),
        _ if is_json(text) => (
            "this is JSON",
            "formats of the Firefox Profiler and of Chrome are written by `sigprof convert`, not read; give sigprof the original profile",
        ),
        _ if is_markup(text) => (
            "this is a page or a picture",
            "open it in a browser, or give sigprof the profile that it was made from",
        ),
        _ if bytes.starts_with(b"heap profile:") => {
            ("this is a heap profile of tcmalloc", "pprof and google-pprof read it")
        }
        _ => return None,
    })
}

/// True for a JSON object. The first frame of folded stacks may be `{main}`, as in PHP.
fn is_json(text: &[u8]) -> bool {
    let inside = text.strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
    inside.is_some_and(|inside| inside.is_empty() || inside.starts_with(b"\"") || inside.starts_with(b"}"))
}

/// True for HTML and SVG. The first frame of folded stacks may be `<module>`, as in Python.
fn is_markup(text: &[u8]) -> bool {
    [&b"<!"[..], b"<?xml", b"<html", b"<svg"]
        .iter()
        .any(|start| text.get(..start.len()).is_some_and(|text| text.eq_ignore_ascii_case(start)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_files_of_other_tools() {
        for (bytes, what) in [
            (&b"\x7fELF\x02"[..], "program"),
            (b"PERFILE2xx", "perf.data"),
            (b"gmon\x01", "gprof"),
            (b"version: 1\ncreator: x\nevents: Ir\n", "callgrind"),
            (b" {\"$schema\":\"https://www.speedscope.app/file-format-schema.json\"}", "speedscope"),
            (b"{\"meta\":{}}", "JSON"),
            (b"{\n  \"meta\"", "JSON"),
            (b"<!doctype html>", "page"),
            (b"\n<HTML>", "page"),
            (b"<?xml version=\"1.0\"?>", "picture"),
            (b"<svg xmlns=", "picture"),
            (b"heap profile:  1:  2", "heap"),
        ] {
            let (found, advice) = describe(bytes).expect(what);
            assert!(found.contains(what) && !advice.is_empty(), "{found}");
        }
        for folded in ["", "nothing known", "<module> (a.py:1);f 3\n", "{main};f 3\n", "{{closure}} 1\n"] {
            assert_eq!(describe(folded.as_bytes()), None, "{folded}");
        }
    }
}
