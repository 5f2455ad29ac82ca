// Profiles itself by Go's runtime, and writes the profile to the file that it is given.
package main

import (
	"context"
	"os"
	"runtime/pprof"
	"syscall"
	"time"
)

// CPU time of the process: ticks come by it, however little of the machine is ours.
func used() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

//go:noinline
func spin(d time.Duration) int {
	end := used() + d
	n := 0
	for used() < end {
		for i := 0; i < 100000; i++ {
			n += i * i
		}
	}
	return n
}

//go:noinline
func labelled() int {
	n := 0
	pprof.Do(context.Background(), pprof.Labels("route", "/index"), func(context.Context) {
		n = spin(500 * time.Millisecond)
	})
	return n
}

//go:noinline
func recurse(depth int) int {
	if depth == 0 {
		return spin(150 * time.Millisecond)
	}
	if depth == 1 {
		return recurse(0) + 1
	}
	return other(depth-1) + 1
}

//go:noinline
func other(depth int) int {
	return recurse(depth) + spin(30*time.Millisecond)
}

func main() {
	file, err := os.Create(os.Args[1])
	if err != nil {
		panic(err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		panic(err)
	}
	if labelled()+recurse(4) == 0 {
		os.Exit(1)
	}
	pprof.StopCPUProfile()
	file.Close()
}
