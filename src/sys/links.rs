//! Symbolic links in paths. Where any user may create entries, a link may make a user with more
//! rights write into another file. So a link in a directory like /tmp is followed only if this user
//! or the directory's owner owns it. `fs.protected_symlinks` may be off, and covers only the last
//! link.

use super::{
    entry::{Entry, FileKind, Status},
    errno,
    file::PathBuffer,
    process,
};

/// The kernel's limit.
const MAX_LINKS: usize = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResolveError {
    /// A link of another user in a directory like /tmp.
    ForeignLink,
    System(i32),
}

impl From<i32> for ResolveError {
    fn from(errno: i32) -> Self {
        Self::System(errno)
    }
}

pub(crate) struct ResolveBuffers {
    rest: PathBuffer,
    link: PathBuffer,
}

/// Resolves links, `.` and `..` in an absolute path; the root becomes empty. The file may be
/// missing.
///
/// # Errors
/// A foreign link, or the error number of `lstat(2)` or `readlink(2)`; `ELOOP` for too many links.
pub(crate) fn resolve(path: &mut PathBuffer, buffers: &mut ResolveBuffers) -> Result<(), ResolveError> {
    buffers.rest.replace(path.as_bytes())?;
    path.truncate(0);
    let mut links = 0;
    let mut done = 0;
    loop {
        let rest = buffers.rest.as_bytes();
        let Some(start) = (done..rest.len()).find(|&at| rest.get(at) != Some(&b'/')) else { return Ok(()) };
        let end = (start..rest.len()).find(|&at| rest.get(at) == Some(&b'/')).unwrap_or(rest.len());
        let component = rest.get(start..end).unwrap_or_default();
        let is_last = rest.iter().skip(end).all(|&byte| byte == b'/');
        done = end;
        let parent = path.as_bytes().len();
        match component {
            b"." => continue,
            b".." => {
                path.truncate(path.as_bytes().iter().rposition(|&byte| byte == b'/').unwrap_or(0));
                continue;
            }
            _ => {}
        }
        path.push(b"/")?;
        path.push(component)?;
        let status = match Entry::at(path.as_c_str()).status() {
            Ok(status) => status,
            Err(errno::ENOENT) if is_last => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        match status.kind {
            FileKind::SymbolicLink if links == MAX_LINKS => return Err(errno::ELOOP.into()),
            FileKind::SymbolicLink => {
                links += 1;
                Entry::at(path.as_c_str()).read_link(&mut buffers.link)?;
                buffers.link.push(rest.get(end..).unwrap_or_default())?;
                path.truncate(parent);
                if !is_followed(&status, path) {
                    return Err(ResolveError::ForeignLink);
                }
                if buffers.link.as_bytes().starts_with(b"/") {
                    path.truncate(0);
                }
                core::mem::swap(&mut buffers.rest, &mut buffers.link);
                done = 0;
            }
            FileKind::Directory => {}
            _ if is_last => {}
            FileKind::Regular | FileKind::Special | FileKind::Socket => {
                return Err(errno::ENOTDIR.into());
            }
        }
    }
}

fn is_followed(link: &Status, directory: &PathBuffer) -> bool {
    let path = if directory.as_bytes().is_empty() { c"/" } else { directory.as_c_str() };
    link.owner == process::effective_user()
        || Entry::at(path).status().is_ok_and(|directory| is_trusted(link, &directory))
}

/// True unless the directory is shared, as /tmp, and its owner does not own `entry`.
pub(crate) fn is_trusted(entry: &Status, directory: &Status) -> bool {
    !directory.is_shared_directory() || directory.owner == entry.owner
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        os::unix::{
            ffi::OsStrExt,
            fs::{PermissionsExt, lchown, symlink},
        },
        path::Path,
    };

    fn resolved(path: &Path) -> Result<String, ResolveError> {
        let mut buffer = PathBuffer::new();
        buffer.push(path.as_os_str().as_bytes()).unwrap();
        resolve(&mut buffer, &mut ResolveBuffers { rest: PathBuffer::new(), link: PathBuffer::new() })?;
        Ok(String::from_utf8(buffer.as_bytes().to_vec()).unwrap())
    }

    fn real(directory: &tempfile::TempDir) -> std::path::PathBuf {
        directory.path().canonicalize().unwrap()
    }

    #[test]
    fn resolves_links_as_the_kernel() {
        let scratch = tempfile::tempdir().unwrap();
        let root = real(&scratch);
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/file"), "").unwrap();
        symlink("a/b", root.join("relative")).unwrap();
        symlink(root.join("relative"), root.join("absolute")).unwrap();
        symlink("../b/file", root.join("a/b/up")).unwrap();
        symlink("b/", root.join("a/slash")).unwrap();
        for path in ["a/b/file", "relative/file", "absolute/up", "./a//b/../b/./file", "a/slash/file"] {
            let expected = root.join(path).canonicalize().unwrap();
            assert_eq!(resolved(&root.join(path)).as_deref(), Ok(expected.to_str().unwrap()), "{path}");
        }
        assert_eq!(resolved(Path::new("//")).as_deref(), Ok(""));
        assert_eq!(resolved(Path::new("/..")).as_deref(), Ok(""));
    }

    #[test]
    fn accepts_only_a_missing_last_component() {
        let scratch = tempfile::tempdir().unwrap();
        let root = real(&scratch);
        symlink("gone", root.join("dangling")).unwrap();
        fs::write(root.join("file"), "").unwrap();
        symlink("loop", root.join("loop")).unwrap();
        assert_eq!(resolved(&root.join("dangling")).as_deref(), Ok(root.join("gone").to_str().unwrap()));
        assert_eq!(resolved(&root.join("dangling/file")), Err(ResolveError::System(libc::ENOENT)));
        assert_eq!(resolved(&root.join("file/below")), Err(ResolveError::System(libc::ENOTDIR)));
        assert_eq!(resolved(&root.join("loop")), Err(ResolveError::System(libc::ELOOP)));
    }

    #[test]
    fn refuses_foreign_links_in_shared_directories() {
        let scratch = tempfile::tempdir().unwrap();
        let root = real(&scratch);
        fs::write(root.join("file"), "").unwrap();
        symlink("file", root.join("link")).unwrap();
        let is_root = process::effective_user() == 0;
        for (mode, stranger, followed) in
            [(0o755, true, true), (0o777, true, true), (0o1777, false, true), (0o1777, true, false)]
        {
            fs::set_permissions(&root, fs::Permissions::from_mode(mode)).unwrap();
            if is_root {
                let owner = if stranger { 65534 } else { 0 };
                lchown(root.join("link"), Some(owner), None).unwrap();
            } else if stranger {
                // Only root can change a link's owner; otherwise only the rule is tested.
                let link = Status { owner: !process::effective_user(), ..status(&root.join("link")) };
                let mut directory = PathBuffer::new();
                directory.push(root.as_os_str().as_bytes()).unwrap();
                assert_eq!(is_followed(&link, &directory), followed, "{mode:o}");
                continue;
            }
            let expected = if followed {
                Ok(root.join("file").to_str().unwrap().to_owned())
            } else {
                Err(ResolveError::ForeignLink)
            };
            assert_eq!(resolved(&root.join("link")), expected, "{mode:o} {stranger}");
        }
    }

    fn status(path: &Path) -> Status {
        let path = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
        Entry::at(&path).status().unwrap()
    }
}
