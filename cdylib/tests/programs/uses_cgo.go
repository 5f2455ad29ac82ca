package main

// int answer(void) { return 42; }
import "C"

import "fmt"

func init() {
	fmt.Println(C.answer())
}
