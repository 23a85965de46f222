package perpend

import (
	"encoding/json"
	"time"
)

// Level is the severity of a log line.
type Level uint8

// The levels, in the order of the contract.
const (
	Debug Level = iota
	Info
	Warn
	Severe
)

// Log adds a line to the log of the evaluation; fields may be nil.
func Log(level Level, message string, fields map[string]any) {
	text := ""
	if len(fields) > 0 {
		if object, err := json.Marshal(fields); err == nil {
			text = string(object)
		}
	}
	host.Log(level, message, text)
}

// Seed returns a number that is the same for equal calls, on every machine. Use it to seed random generators.
func Seed() uint64 { return host.Seed() }

// RunTime returns the start time of the run. Clocks always return this time.
func RunTime() time.Time { return host.RunTime() }

// upstream returns the error for a failed call to the host.
func upstream(message string) error { return &Error{KindUpstream, message} }
