// Package runtime allocates memory for the generated bindings.
//
// The garbage collector is disabled: an instance lives for one call, and a collection that starts during an
// allocation for the host would never finish.
package runtime

import (
	"runtime"
	"runtime/debug"
	"unsafe"
)

func init() { debug.SetGCPercent(-1) }

// Allocate returns memory that does not move while the pinner holds it. Every alignment of the
// canonical ABI divides 8.
func Allocate(pinner *runtime.Pinner, size, _ uintptr) unsafe.Pointer {
	if size == 0 {
		// Any valid address is suitable for an empty allocation.
		return unsafe.Pointer(&empty)
	}
	words := make([]uint64, (size+7)/8)
	at := unsafe.Pointer(unsafe.SliceData(words))
	pinner.Pin(at)
	return at
}

var empty uint64

// The allocations for the host, until the bindings have read them.
var hostMemory runtime.Pinner

// Unpin releases the allocations for the host after the bindings have read them.
func Unpin() { hostMemory.Unpin() }
