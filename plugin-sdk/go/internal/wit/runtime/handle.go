package runtime

// Handle refers to a resource of the host.
type Handle struct{ value int32 }

// MakeHandle wraps a handle of the host.
func MakeHandle(value int32) *Handle { return &Handle{value} }

// Use returns the handle without transferring it.
func (h *Handle) Use() int32 {
	if h.value == 0 {
		panic("the handle was transferred to the host")
	}
	return h.value
}

// Take returns the handle and transfers it to the host.
func (h *Handle) Take() int32 {
	value := h.Use()
	h.value = 0
	return value
}

// Set restores a handle.
func (h *Handle) Set(value int32) { h.value = value }

// TakeOrNil is Take, or 0 for a handle that was already transferred.
func (h *Handle) TakeOrNil() int32 {
	value := h.value
	h.value = 0
	return value
}
