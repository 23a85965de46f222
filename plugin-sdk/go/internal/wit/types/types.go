// Package types has the generic types of the generated bindings.
package types

// The tags of an Option.
const (
	OptionNone uint8 = iota
	OptionSome
)

// Option is a value that may be absent.
type Option[T any] struct {
	tag   uint8
	value T
}

// None returns an empty Option.
func None[T any]() Option[T] { return Option[T]{} }

// Some returns an Option with a value.
func Some[T any](value T) Option[T] { return Option[T]{OptionSome, value} }

// Tag is OptionNone or OptionSome.
func (o Option[T]) Tag() uint8 { return o.tag }

// Some returns the value. It panics if the Option is empty.
func (o Option[T]) Some() T {
	if o.tag != OptionSome {
		panic("the option is empty")
	}
	return o.value
}

// The tags of a Result.
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

// Ok returns a successful Result.
func Ok[T, E any](value T) Result[T, E] { return Result[T, E]{tag: ResultOk, value: value} }

// Err returns a failed Result.
func Err[T, E any](err E) Result[T, E] { return Result[T, E]{tag: ResultErr, err: err} }

// Tag is ResultOk or ResultErr.
func (r Result[T, E]) Tag() uint8 { return r.tag }

// Ok returns the value. It panics if the Result is an error.
func (r Result[T, E]) Ok() T {
	if r.tag != ResultOk {
		panic("the result is an error")
	}
	return r.value
}

// Err returns the error. It panics if the Result is a value.
func (r Result[T, E]) Err() E {
	if r.tag != ResultErr {
		panic("the result is a value")
	}
	return r.err
}
