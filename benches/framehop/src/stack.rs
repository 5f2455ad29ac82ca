//! Reads of the stack that cannot fault: a page is checked, then read.

/// Checked pages from the stack pointer upwards.
pub(crate) struct Reader {
    start: u64,
    end: u64,
}

const PAGE: u64 = 4096;

impl Reader {
    pub(crate) fn new(sp: u64) -> Self {
        let page = sp & !(PAGE - 1);
        Self { start: page, end: page }
    }

    #[inline]
    pub(crate) fn read(&mut self, address: u64) -> Result<u64, ()> {
        if address % 8 != 0 || address < self.start {
            return Err(());
        }
        while address >= self.end {
            // A stack's frames are close together; a distant address is not on it.
            if address - self.end > 1 << 20 || !is_readable(self.end) {
                return Err(());
            }
            self.end += PAGE;
        }
        // SAFETY: aligned, and in a page that is readable.
        Ok(unsafe { (address as *const u64).read_volatile() })
    }
}

/// Whether the kernel can read there: it reads the mask before it refuses the request.
#[cold]
fn is_readable(address: u64) -> bool {
    const NO_SUCH_CHANGE: i32 = -1;
    // SAFETY: the kernel reads the mask and refuses the request.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, NO_SUCH_CHANGE, address, 0, 8) };
    // SAFETY: libc returns the thread's `errno`.
    unsafe { *libc::__errno_location() == libc::EINVAL }
}

/// Returns the calling thread's minor page faults.
pub(crate) fn minor_faults() -> u64 {
    // SAFETY: zero is a valid value of every field.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: the structure is a local.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
    usage.ru_minflt as u64
}
