// Prints the files of a table as `uri size`, one a line: list TABLE [OPTIONS]
//
// CGO_CFLAGS=-I…/native CGO_LDFLAGS="-L…/build/native/release -ldelta_sidecar" go build
package main

/*
#include <stdlib.h>
#include "delta_sidecar.h"
*/
import "C"

import (
	"bufio"
	"fmt"
	"iter"
	"os"
	"runtime"
	"unsafe"
)

// File is one live file of a table.
type File struct {
	Path, URI  string
	Size       int64
	Partition  map[string]*string
	HasDeleted bool
}

// Error is a call that did not answer DELTA_OK.
type Error struct {
	Code    int
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("error %d: %s", e.Code, e.Message) }

// checked reads the message on the thread of the call: a goroutine may move between two calls.
func checked(call func() C.int32_t) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if code := call(); code != C.DELTA_OK {
		return &Error{int(code), C.GoString(C.delta_last_error())}
	}
	return nil
}

// Files gives the files one by one; to break out of the loop ends the reading.
func Files(table, options string) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		place, json := C.CString(table), C.CString(options)
		defer C.free(unsafe.Pointer(place))
		defer C.free(unsafe.Pointer(json))
		var scan *C.delta_scan
		if err := checked(func() C.int32_t { return C.delta_scan_open(place, json, &scan) }); err != nil {
			yield(File{}, err)
			return
		}
		defer C.delta_scan_close(scan)
		for {
			var file *C.delta_file
			if err := checked(func() C.int32_t { return C.delta_scan_next(scan, &file) }); err != nil {
				yield(File{}, err)
				return
			}
			if file == nil || !yield(goFile(file), nil) {
				return
			}
		}
	}
}

func goFile(file *C.delta_file) File {
	partition := map[string]*string{}
	for _, pair := range unsafe.Slice(file.partition_values, int(file.partition_count)) {
		if pair.value == nil {
			partition[C.GoString(pair.name)] = nil
			continue
		}
		text := C.GoString(pair.value)
		partition[C.GoString(pair.name)] = &text
	}
	return File{C.GoString(file.path), C.GoString(file.uri), int64(file.size), partition, file.deletion_vector != nil}
}

func main() {
	options := ""
	if len(os.Args) > 2 {
		options = os.Args[2]
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for file, err := range Files(os.Args[1], options) {
		if err != nil {
			out.Flush()
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Fprintln(out, file.URI, file.Size)
	}
}
