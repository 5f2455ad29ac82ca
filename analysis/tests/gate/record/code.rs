//! Names of code that is not in its file any more.

use super::support::{Rig, compile};

/// As programs do that want their code in huge pages.
#[test]
fn code_that_a_program_moves_to_memory_keeps_its_names() {
    let rig = Rig::new();
    let program = compile(
        &rig,
        r#"
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
extern char __start_moved[], __stop_moved[];
__attribute__((section("moved"), noinline, aligned(4096))) int in_memory(int n) {
    for (int i = 0; i < n; i++) raise(SIGPROF);
    return n + 1;
}
void *mremap(void *, size_t, size_t, int, ...);
int main(void) {
    uintptr_t from = (uintptr_t)__start_moved & ~4095UL, to = ((uintptr_t)__stop_moved + 4095) & ~4095UL;
    char *copy = mmap(NULL, to - from, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(copy, (void *)from, to - from);
    if (mprotect(copy, to - from, PROT_READ | PROT_EXEC)) return 97;
    if (mremap(copy, to - from, to - from, 3, (void *)from) == MAP_FAILED) return 98;
    return in_memory(20) != 21;
}"#,
    );
    rig.record(&[], &[&program]).expect(0);
    assert!(!rig.processes_in(&rig.profile(), "in_memory").is_empty());
}
