//! Debian's programs, with work of some seconds that needs no network.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::Result;

/// A program, and shell scripts that run in an empty directory.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// The required file and its package.
    pub(crate) file: &'static str,
    pub(crate) package: &'static str,
    /// Creates the input.
    pub(crate) prepare: &'static str,
    /// Does the work for about `$seconds`: `profiled COMMAND...` runs a command under the profiler.
    pub(crate) work: &'static str,
}

impl Program {
    /// True if the program is installed; otherwise prints the package to install.
    pub(crate) fn is_there(&self) -> bool {
        let is_there = Path::new(self.file).exists();
        if !is_there {
            println!("{:24}absent: no {}; install {}", self.name, self.file, self.package);
        }
        is_there
    }

    /// Runs the program for about `seconds` in the empty directory `place`, with `library`
    /// preloaded and the variables `more`. Profiles are named `profile_PID`. Returns stderr.
    ///
    /// # Errors
    /// If a script fails.
    pub(crate) fn run(
        &self,
        seconds: u32,
        library: &Path,
        place: &Path,
        more: &[(&str, &str)],
    ) -> Result<String> {
        let said = place.join("said");
        fs::write(&said, "")?;
        for script in [self.prepare, self.work] {
            let status = Command::new("/bin/sh")
                .args(["-euc", &format!("{PRELUDE}\n{script}")])
                .env_clear()
                .env("PATH", "/usr/bin:/bin")
                .env("LC_ALL", "C.UTF-8")
                .env("HOME", place)
                .env("library", library)
                .env("place", place)
                .env("seconds", seconds.to_string())
                .envs(more.iter().copied())
                .stdin(Stdio::null())
                .status()?;
            if !status.success() {
                return Err(format!("{}: {status}: {}", self.name, fs::read_to_string(&said)?).into());
            }
        }
        Ok(String::from_utf8_lossy(&fs::read(&said)?).into_owned())
    }
}

/// Definitions for scripts.
const PRELUDE: &str = r#"
    profiled() {
        LD_PRELOAD="$library" CPUPROFILE="$place/profile" CPUPROFILE_USE_PID=1 "$@" 2>> "$place/said"
    }
    cd "$place"
"#;

pub(crate) const PROGRAMS: [Program; 10] = [
    Program {
        name: "python3",
        file: "/usr/bin/python3",
        package: "python3",
        prepare: PYTHON,
        work: "profiled /usr/bin/python3 work.py",
    },
    Program {
        name: "perl",
        file: "/usr/bin/perl",
        package: "perl",
        prepare: PERL,
        work: "profiled /usr/bin/perl work.pl",
    },
    Program {
        name: "gcc's cc1",
        file: "/usr/bin/gcc",
        package: "gcc",
        prepare: C,
        work: r#"profiled "$(/usr/bin/gcc -print-prog-name=cc1)" -O2 -quiet work.c -o work.s"#,
    },
    Program {
        name: "git gc, log, blame",
        file: "/usr/bin/git",
        package: "git",
        prepare: HISTORY,
        work: "cd repository
            for _ in $(seq $((seconds / 2 + 1))); do
                profiled /usr/bin/git log -p --stat > /dev/null
                profiled /usr/bin/git blame -M -C main -- part0/file.txt > /dev/null
            done
            profiled /usr/bin/git gc --aggressive --quiet",
    },
    Program {
        name: "openssl speed",
        file: "/usr/bin/openssl",
        package: "openssl",
        prepare: "",
        work: "algorithms='sha256 aes-256-cbc'
            if [ $seconds -gt 1 ]; then
                algorithms=\"$algorithms sha512 md5 sha1 camellia-256-cbc ghash rsa2048 ecdsap256 ecdhx25519 ed25519\"
            fi
            profiled /usr/bin/openssl speed -seconds $((seconds / 10 + 1)) -bytes 8192 $algorithms > /dev/null",
    },
    Program {
        name: "redis-server (threads)",
        file: "/usr/bin/redis-server",
        package: "redis",
        prepare: "",
        work: "profiled /usr/bin/redis-server --port 0 --unixsocket socket --save '' --io-threads 3 \
                --io-threads-do-reads yes > /dev/null &
            until [ -S socket ]; do sleep 0.05; done
            redis-benchmark -s socket -q -P 8 -n $((seconds * 2000)) \
                -t set,get,incr,lpush,rpop,sadd,hset,zadd,lrange_100,mset > /dev/null
            redis-cli -s socket shutdown nosave
            wait",
    },
    Program {
        name: "ripgrep (Rust, threads)",
        file: "/usr/bin/rg",
        package: "ripgrep",
        prepare: LINES,
        // A small limit makes ripgrep use a slower engine.
        work: r"profiled /usr/bin/rg -j2 --dfa-size-limit 1K -ic '(\w+ ){4,}\w*[13579]\b.*e\s*x\d$' . > /dev/null || [ $? = 1 ]",
    },
    Program {
        name: "bat (Rust)",
        file: "/usr/bin/batcat",
        package: "bat",
        prepare: C,
        work: "profiled /usr/bin/batcat --color=always --paging=never --no-config \
                work.c work.c work.c work.c work.c work.c work.c work.c work.c > /dev/null",
    },
    Program {
        name: "povray (C++, threads)",
        file: "/usr/bin/povray",
        package: "povray",
        prepare: SCENE,
        work: "profiled /usr/bin/povray work.pov +W$((seconds * 80)) +H300 +Q9 +A0.1 +WT2 -D -O/dev/null +FN 2>> said",
    },
    Program {
        name: "z3 (C++)",
        file: "/usr/bin/z3",
        package: "z3",
        prepare: PIGEONS,
        work: "profiled /usr/bin/z3 rlimit=$((seconds * 1500000)) work.smt2 > /dev/null",
    },
];

/// rustup's cargo, 42 MB of Rust, reads a workspace of many packages. `$cargo` is its path.
pub(crate) const CARGO: Program = Program {
    name: "cargo (40 MB of Rust)",
    file: env!("CARGO"),
    package: "a toolchain by rustup",
    prepare: r#"printf '[workspace]\nresolver = "2"\nmembers = ["p*"]\n' > Cargo.toml
for i in $(seq $((seconds * 300))); do
    mkdir -p p$i/src
    : > p$i/src/lib.rs
    printf '[package]\nname = "p%d"\nversion = "0.1.%d"\nedition = "2021"\n[features]\na = []\n' $i $i > p$i/Cargo.toml
    printf '[dependencies]\n' >> p$i/Cargo.toml
    for j in 1 2 3 5 8 13; do
        [ $j -ge $i ] || printf 'p%d = { path = "../p%d", features = ["a"] }\n' $((i - j)) $((i - j)) >> p$i/Cargo.toml
    done
done
"#,
    work: r#"export RUSTC="${cargo%/*}/rustc"
        for _ in 1 2 3; do
            profiled "$cargo" metadata --offline --quiet --format-version 1 > /dev/null
        done"#,
};

const PYTHON: &str = r"cat > work.py << 'END'
import ast, collections, decimal, difflib, glob, json, os, pickle, re, sys, time, zlib
library = os.path.dirname(os.__file__)
texts = [open(name, encoding='utf-8', errors='replace').read() for name in sorted(glob.glob(library + '/*.py'))]
end = float(sys.argv[1]) if len(sys.argv) > 1 else float(os.environ['seconds'])
while time.process_time() < end:
    for one, other in zip(texts, texts[1:]):
        compile(ast.parse(one), 'one', 'exec')
        words = re.findall(r'[A-Za-z_]\w+', one)
        counted = collections.Counter(words)
        json.loads(json.dumps(counted, indent=1, sort_keys=True))
        sorted(words, key=lambda word: (counted[word], word[::-1]))
        pickle.loads(pickle.dumps(words))
        zlib.decompress(zlib.compress(one.encode(), 9))
        sum(decimal.Decimal(i) / 7 for i in range(500))
        list(difflib.unified_diff(one.split('\n')[:100], other.split('\n')[:100]))
        if time.process_time() >= end:
            break
END
";

const PERL: &str = r#"cat > work.pl << 'END'
my %count;
while ((times)[0] < $ENV{seconds}) {
    open my $text, "<", "/usr/share/common-licenses/GPL-3" or die "GPL-3: $!\n";
    while (my $line = <$text>) {
        $count{lc $1}++ while $line =~ /(\w+)/g;
        my $joined = join "|", map { sprintf "%s:%d", scalar reverse($_), length } sort split /\s+/, $line;
        $joined =~ s/([aeiou])(\w)/$2$1/g;
        $count{substr $joined, 0, 8}++;
    }
    my @words = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
    %count = map { $_ => 1 } @words[0 .. 99];
}
END
"#;

const C: &str = r##"awk -v functions=$((seconds * 200)) 'BEGIN {
    print "#include <stddef.h>"
    for (i = 0; i < functions; i++) {
        printf "int f%d(int *a, size_t n, int k) {\n    int s = %d;\n    for (size_t j = 0; j < n; j++) {\n", i, i
        printf "        if (a[j] %% %d == k) s += a[j] * %d; else s ^= a[n - 1 - j] >> (k & 7);\n    }\n", i + 3, i
        printf "    switch (s & 7) { case 0: return s * 3; case 1: return a[0]; default: return s / %d; }\n}\n", i + 3
    }
}' > work.c
"##;

const HISTORY: &str = r#"git init --quiet --initial-branch=main repository
awk -v commits=$((seconds * 60)) 'BEGIN {
    for (i = 0; i < 3000; i++) line[i] = "line " i ", value " i * i % 7919
    for (c = 0; c < commits; c++) {
        for (i = 0; i < 40; i++) line[(c * 131 + i * 71) % 3000] = "line changed by commit " c ", " i
        body = ""
        for (i = 0; i < 3000; i++) body = body line[i] "\n"
        printf "commit refs/heads/main\ncommitter T <t@example.org> %d +0000\ndata 6\nchange\n", 1700000000 + c
        printf "M 100644 inline part%d/file.txt\ndata %d\n%s\n", c % 3, length(body), body
    }
}' | git -C repository fast-import --quiet
"#;

const LINES: &str = r#"for part in 0 1 2 3; do
    awk -v part=$part -v lines=$((seconds * 30000)) 'BEGIN {
        state = 12345 + part
        for (i = 0; i < lines; i++) {
            state = (state * 16807) % 2147483647
            printf "line %x named %x, of size %d and then some more x%d\n", state, i * 7919, state % 1000, i % 10
        }
    }' > part$part.txt
done
"#;

const SCENE: &str = r#"cat > work.pov << 'END'
#version 3.7;
global_settings { assumed_gamma 1 max_trace_level 8 }
camera { location <0, 4, -12> look_at <0, 1, 0> }
light_source { <20, 30, -20> rgb 1 area_light <4, 0, 0>, <0, 4, 0>, 4, 4 adaptive 1 jitter }
plane { y, 0 texture { pigment { checker rgb 1, rgb 0.2 } finish { reflection 0.2 } } }
#declare I = -4;
#while (I <= 4)
  #declare J = 0;
  #while (J <= 6)
    sphere { <I, 0.6, J> 0.45
      texture { pigment { marble turbulence 1 } normal { bumps 0.4 scale 0.1 } finish { reflection 0.5 phong 1 } } }
    #declare J = J + 1;
  #end
  #declare I = I + 1;
#end
difference {
  blob { threshold 0.5 sphere { <-1, 3, 2>, 1.5, 1 } sphere { <1, 3, 2>, 1.5, 1 } }
  torus { 1, 0.3 translate <0, 3, 1> }
  texture { pigment { rgbf <0.9, 1, 0.9, 0.9> } finish { reflection 0.1 } } interior { ior 1.4 }
}
END
"#;

/// The pigeonhole problem, which no solver solves quickly.
const PIGEONS: &str = r#"awk -v holes=12 'BEGIN {
    for (p = 0; p <= holes; p++) for (h = 0; h < holes; h++) print "(declare-const p" p "h" h " Bool)"
    for (p = 0; p <= holes; p++) {
        printf "(assert (or"
        for (h = 0; h < holes; h++) printf " p%dh%d", p, h
        print "))"
    }
    for (h = 0; h < holes; h++) for (p = 0; p <= holes; p++) for (q = 0; q < p; q++)
        printf "(assert (not (and p%dh%d p%dh%d)))\n", p, h, q, h
    print "(declare-const x Int) (declare-const y Real) (assert (> (+ (* x 3) y) 7.5)) (check-sat)"
}' > work.smt2
"#;
