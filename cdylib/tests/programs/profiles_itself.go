// A program that profiles itself by its own runtime, with threads, garbage and signals. usage: profiles_itself FILE [timer]
// It prints what does not depend on a profiler: as does the kernel's timer where nobody profiles it. With cgo its runtime sets
// handlers by libc's sigaction.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/pprof"
	"sync"
	"syscall"
	"unsafe"
)

var sink []byte

func work(seed int) uint64 {
	state := uint64(seed)
	for i := 0; i < 6000000; i++ {
		state = state*6364136223846793005 + 1442695040888963407
		if i%4096 == 0 {
			sink = make([]byte, 1024)
		}
	}
	return state
}

// The number of samples in a profile: of fields 2 of the outermost message, which has numbers and messages alone.
func samples(profile []byte) (count int) {
	reader, err := gzip.NewReader(bytes.NewReader(profile))
	if err != nil {
		panic(err)
	}
	message, err := io.ReadAll(reader)
	if err != nil {
		panic(err)
	}
	for len(message) > 0 {
		tag, tagBytes := binary.Uvarint(message)
		value, valueBytes := binary.Uvarint(message[tagBytes:])
		message = message[tagBytes+valueBytes:]
		if tag&7 == 2 {
			message = message[value:]
		}
		if tag>>3 == 2 {
			count++
		}
	}
	return count
}

func profiled(name string) int {
	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err != nil {
		panic(err)
	}
	var group sync.WaitGroup
	sums := make([]uint64, 8)
	for i := range sums {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			for j := 0; j < 12; j++ {
				sums[i] += work(i)
			}
		}(i)
	}
	group.Wait()
	pprof.StopCPUProfile()
	for i, sum := range sums {
		fmt.Println(i, sum)
	}
	if err := os.WriteFile(name, profile.Bytes(), 0o600); err != nil {
		panic(err)
	}
	return samples(profile.Bytes())
}

// What ITIMER_PROF is set to.
func timer() (setting [4]int64) {
	const which = 2
	if _, _, err := syscall.Syscall(syscall.SYS_GETITIMER, which, uintptr(unsafe.Pointer(&setting)), 0); err != 0 {
		panic(err)
	}
	return setting
}

func main() {
	if len(os.Args) > 2 {
		fmt.Println("timer:", timer())
	}
	fmt.Println("a profile of its own:", profiled(os.Args[1]) > 0)
	// The runtime takes SIGPROF for itself, and hands other signals on.
	received := make(chan os.Signal, 1)
	signal.Notify(received, syscall.SIGUSR1)
	for _, number := range []syscall.Signal{syscall.SIGPROF, syscall.SIGUSR1} {
		if err := syscall.Kill(os.Getpid(), number); err != nil {
			panic(err)
		}
	}
	fmt.Println(<-received)
	fmt.Println("once more:", profiled(os.Args[1]) > 0)
}
