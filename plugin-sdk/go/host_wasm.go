//go:build wasip1

package perpend

import (
	"time"

	"perpend/internal/perpend_evaluator_context"
	"perpend/internal/perpend_evaluator_log"
	types "perpend/internal/perpend_evaluator_types"
	wit "perpend/internal/wit/types"
)

// The host of a component.
type component struct{}

var host component

func some[T comparable](value T) wit.Option[T] {
	var empty T
	if value == empty {
		return wit.None[T]()
	}
	return wit.Some(value)
}

func someOf[T any](value *T) wit.Option[T] {
	if value == nil {
		return wit.None[T]()
	}
	return wit.Some(*value)
}

func or[T any](option wit.Option[T], otherwise T) T {
	if option.Tag() == wit.OptionSome {
		return option.Some()
	}
	return otherwise
}

func named(names []string, number uint8) string {
	if int(number) < len(names) {
		return names[number]
	}
	return ""
}

func at(ms uint64) time.Time { return time.UnixMilli(int64(ms)).UTC() }

func payload(given wit.Option[types.Payload]) *Payload {
	if given.Tag() == wit.OptionNone {
		return nil
	}
	if value := given.Some(); value.Tag() == types.PayloadText {
		return Text(value.Text())
	} else {
		return JSON(value.Json())
	}
}

func traceRef(given wit.Option[types.TraceRef]) *TraceRef {
	if given.Tag() == wit.OptionNone {
		return nil
	}
	trace := given.Some()
	return &TraceRef{TraceID: trace.TraceId, ObservationID: or(trace.ObservationId, "")}
}

func (component) Log(level Level, message, fields string) {
	perpend_evaluator_log.Log(uint8(level), message, some(fields))
}

func (component) Seed() uint64 { return perpend_evaluator_context.Seed() }

func (component) RunTime() time.Time { return at(perpend_evaluator_context.RunTime()) }
