package runtime

import "unsafe"

// Called by the host to allocate the arguments of a call.
//
//go:wasmexport cabi_realloc
func realloc(old unsafe.Pointer, oldSize, align, size uint32) unsafe.Pointer {
	if oldSize != 0 && size <= oldSize {
		return old
	}
	at := Allocate(&hostMemory, uintptr(size), uintptr(align))
	if oldSize != 0 {
		copy(unsafe.Slice((*byte)(at), size), unsafe.Slice((*byte)(old), oldSize))
	}
	return at
}
