// Package types has the generic types that the generated bindings name.
package types

// Whether an Option holds a value.
const (
	OptionNone uint8 = iota
	OptionSome
)

// Option is a value that may be absent.
type Option[T any] struct {
	tag   uint8
	value T
}

// None is absent.
func None[T any]() Option[T] { return Option[T]{} }

// Some is there.
func Some[T any](value T) Option[T] { return Option[T]{OptionSome, value} }

// Tag is OptionNone or OptionSome.
func (o Option[T]) Tag() uint8 { return o.tag }

// Some is the value; asking for one that is absent is a mistake.
func (o Option[T]) Some() T {
	if o.tag != OptionSome {
		panic("the option is empty")
	}
	return o.value
}

// Which case a Result holds.
const (
	ResultOk uint8 = iota
	ResultErr
)

// Result is a value or an error.
type Result[T, E any] struct {
	tag   uint8
	value T
	err   E
}

// Ok is a value.
func Ok[T, E any](value T) Result[T, E] { return Result[T, E]{tag: ResultOk, value: value} }

// Err is an error.
func Err[T, E any](err E) Result[T, E] { return Result[T, E]{tag: ResultErr, err: err} }

// Tag is ResultOk or ResultErr.
func (r Result[T, E]) Tag() uint8 { return r.tag }

// Ok is the value; asking an error for it is a mistake.
func (r Result[T, E]) Ok() T {
	if r.tag != ResultOk {
		panic("the result is an error")
	}
	return r.value
}

// Err is the error; asking a value for it is a mistake.
func (r Result[T, E]) Err() E {
	if r.tag != ResultErr {
		panic("the result is a value")
	}
	return r.err
}
