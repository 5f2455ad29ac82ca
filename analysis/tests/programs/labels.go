// Labels on samples, goroutines, maps and sorting.
package main

import (
	"context"
	"os"
	"runtime/pprof"
	"sort"
	"strconv"
	"sync"
)

//go:noinline
func sortSome(seed uint32) int {
	values := make([]int, 20000)
	for i := range values {
		seed = seed*1664525 + 1013904223
		values[i] = int(seed >> 8)
	}
	sort.Ints(values)
	return values[len(values)/2]
}

//go:noinline
func fillMap(rounds int) int {
	table := map[string]int{}
	for i := 0; i < rounds; i++ {
		table[strconv.Itoa(i%5000)] += i
	}
	return len(table)
}

func main() {
	if err := pprof.StartCPUProfile(os.Stdout); err != nil {
		panic(err)
	}
	var all sync.WaitGroup
	for worker := 0; worker < 3; worker++ {
		all.Add(1)
		labels := pprof.Labels("worker", strconv.Itoa(worker), "kind", []string{"even", "odd"}[worker%2])
		go func() {
			defer all.Done()
			pprof.Do(context.Background(), labels, func(context.Context) {
				for round := 0; round < 50; round++ {
					sortSome(uint32(round))
					fillMap(20000)
				}
			})
		}()
	}
	all.Wait()
	pprof.StopCPUProfile()
}
