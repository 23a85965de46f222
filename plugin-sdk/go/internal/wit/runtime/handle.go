package runtime

// Handle names something that the host holds, until it is given back.
type Handle struct{ value int32 }

// MakeHandle is a handle that the host gave.
func MakeHandle(value int32) *Handle { return &Handle{value} }

// Use is the handle, which stays ours.
func (h *Handle) Use() int32 {
	if h.value == 0 {
		panic("the handle was given back")
	}
	return h.value
}

// Take is the handle, which is the host's from now on.
func (h *Handle) Take() int32 {
	value := h.Use()
	h.value = 0
	return value
}

// Set makes a handle ours again.
func (h *Handle) Set(value int32) { h.value = value }

// TakeOrNil is Take where there is something to take, and 0 else.
func (h *Handle) TakeOrNil() int32 {
	value := h.value
	h.value = 0
	return value
}
