// A program that profiles itself by its own runtime, with threads, garbage and signals. usage: profiles_itself FILE
// It prints what does not depend on a profiler. With cgo its runtime sets handlers by libc's sigaction.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"sync"
	"syscall"
)

// A profile without a sample has 202 bytes.
const emptyProfile = 300

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

func profiled(name string) int64 {
	file, err := os.Create(name)
	if err != nil {
		panic(err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
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
	information, err := file.Stat()
	if err != nil {
		panic(err)
	}
	return information.Size()
}

func main() {
	fmt.Println("a profile of its own:", profiled(os.Args[1]) > emptyProfile)
	// The runtime takes SIGPROF for itself, and hands other signals on.
	received := make(chan os.Signal, 1)
	signal.Notify(received, syscall.SIGUSR1)
	for _, number := range []syscall.Signal{syscall.SIGPROF, syscall.SIGUSR1} {
		if err := syscall.Kill(os.Getpid(), number); err != nil {
			panic(err)
		}
	}
	fmt.Println(<-received)
	fmt.Println("once more:", profiled(os.Args[1]) > emptyProfile)
}
