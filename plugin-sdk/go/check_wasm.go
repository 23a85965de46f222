//go:build wasip1

package perpend

import "unsafe"

// The check of configurations is an optional export, which the bindings do not contain. It is implemented here
// with the layout of the canonical ABI: two texts in, a pointer to a list of pairs of texts out.

// Set by Export.
var checked *Plugin

// A text in the layout for the host.
type wireText struct{ at, len uint32 }

// The result, which the host reads after the call; then the instance ends.
var (
	wireProblems [][2]wireText
	wireList     wireText
)

//go:wasmexport perpend:evaluator/config-check@1.0.0#check-config
func exportedCheckConfig(id, idLen, config, configLen uint32) uintptr {
	var problems []Problem
	if checked != nil {
		problems = checked.CheckConfig(given(id, idLen), given(config, configLen))
	}
	for _, problem := range problems {
		wireProblems = append(wireProblems, [2]wireText{wire(problem.Pointer), wire(problem.Message)})
	}
	wireList = wireText{place(unsafe.Pointer(unsafe.SliceData(wireProblems))), uint32(len(wireProblems))}
	return uintptr(unsafe.Pointer(&wireList))
}

func given(at, length uint32) string {
	return unsafe.String((*byte)(unsafe.Pointer(uintptr(at))), length)
}

func wire(text string) wireText {
	return wireText{place(unsafe.Pointer(unsafe.StringData(text))), uint32(len(text))}
}

func place(at unsafe.Pointer) uint32 { return uint32(uintptr(at)) }
