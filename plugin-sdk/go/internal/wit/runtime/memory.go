// Package runtime gives the generated bindings memory.
//
// The collector is off: an instance lives for one call, and a collection that begins while the host asks
// for memory cannot be left again.
package runtime

import (
	"runtime"
	"runtime/debug"
	"unsafe"
)

func init() { debug.SetGCPercent(-1) }

// Allocate gives memory that stays where it is while the pinner holds it. Every alignment of the
// canonical ABI divides 8.
func Allocate(pinner *runtime.Pinner, size, _ uintptr) unsafe.Pointer {
	if size == 0 {
		// Any address does for nothing.
		return unsafe.Pointer(&nothing)
	}
	words := make([]uint64, (size+7)/8)
	at := unsafe.Pointer(unsafe.SliceData(words))
	pinner.Pin(at)
	return at
}

var nothing uint64

// What the host asked memory for, until the bindings have read it.
var lent runtime.Pinner

// Unpin ends the time of what the host asked memory for: the bindings hold it now.
func Unpin() { lent.Unpin() }
