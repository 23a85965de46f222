// Package perpend is the SDK for plug-ins in Go: an evaluator is a description and a function from an item to
// scores.
//
//	type config struct {
//		MaxChars int `json:"max_chars" default:"80" min:"0" doc:"The maximum number that passes."`
//	}
//
//	var plugin = perpend.Plugin{
//		Name:    "acme/length",
//		Version: "0.1.0",
//		Evaluators: []perpend.Definition{
//			perpend.Evaluator[config]{
//				ID:     "max-length",
//				Title:  "Maximum length",
//				Needs:  perpend.Output,
//				Scores: []perpend.ScoreSpec{perpend.BooleanScore("within_limit", "true when it fits")},
//				Evaluate: func(item *perpend.Item, config config) ([]perpend.Score, error) {
//					...
//				},
//			},
//		},
//	}
//
//	func init() { perpend.Export(&plugin) }
//	func main() {}
//
// Every call has a fresh instance: variables are not kept between calls. Package variables are initialized in
// each call, so create tables and regular expressions in the functions that use them. `go test` runs evaluators
// as functions; see UseHost for evaluators that call models or read traces.
package perpend

import (
	"encoding/json"
	"fmt"
)

// Plugin is the description of a component.
type Plugin struct {
	// Name is vendor/name, each 1 to 64 of a-z, 0-9 and -.
	Name string
	// Version is semantic. A published name and version never changes.
	Version     string
	Description string
	Evaluators  []Definition
}

// Definition is an Evaluator with any type of configuration.
type Definition interface {
	info() info
	evaluate(item *Item, config string) ([]Score, error)
	check(config string) []Problem
}

type info struct {
	id, title, description, schema string
	needs                          Part
	slots                          []Slot
	scores                         []ScoreSpec
	dynamicScores, varies          bool
}

// Part is a set of parts of an item. Parts that an evaluator does not need are not loaded.
type Part uint8

// The parts of an item.
const (
	Input Part = 1 << iota
	Output
	ExpectedOutput
	Metadata
	Trace
)

// Slot is a slot for a model, which the configuration of an evaluator assigns.
type Slot struct {
	Name, Description string
	// Embedding is true for an embedding model.
	Embedding bool
	// Required is true when the evaluator cannot be saved without a model.
	Required bool
}

// Evaluator is one scoring function. C is its configuration: a struct whose fields define the JSON Schema
// of configurations. Tags: `json` (the name), `doc`, `default`, `enum` (separated by commas), `min` and `max`.
// A field without a default is required unless it is a pointer.
type Evaluator[C any] struct {
	// ID is unique within the plug-in: 1 to 64 of a-z, 0-9 and -, a letter first.
	ID, Title, Description string
	Needs                  Part
	Slots                  []Slot
	Scores                 []ScoreSpec
	// DynamicScores is true when score names depend on the configuration or the data.
	DynamicScores bool
	// Varies is true when equal items and configurations can have different scores.
	Varies bool
	// Evaluate scores one item. No scores and no error means that there is nothing to report.
	Evaluate func(item *Item, config C) ([]Score, error)
	// Check returns the problems of a configuration that its JSON Schema cannot express. It is called when a
	// configuration is saved, and optional.
	Check func(config C) []Problem
}

// Problem is a problem of a configuration.
type Problem struct {
	// Pointer is a JSON Pointer into the configuration, such as /min; empty for the whole of it.
	Pointer, Message string
}

// None is the type of an empty configuration.
type None = struct{}

func (e Evaluator[C]) info() info {
	return info{
		id: e.ID, title: e.Title, description: e.Description, schema: schemaOf[C](), needs: e.Needs,
		slots: e.Slots, scores: e.Scores, dynamicScores: e.DynamicScores, varies: e.Varies,
	}
}

func (e Evaluator[C]) evaluate(item *Item, text string) ([]Score, error) {
	config, err := configOf[C](text)
	if err != nil {
		return nil, InvalidConfig("%s: %v", e.ID, err)
	}
	return e.Evaluate(item, config)
}

func (e Evaluator[C]) check(text string) []Problem {
	config, err := configOf[C](text)
	if err != nil {
		return []Problem{{Message: fmt.Sprintf("%s: %v", e.ID, err)}}
	}
	if e.Check == nil {
		return nil
	}
	return e.Check(config)
}

// CheckConfig returns the problems of a JSON configuration of the evaluator with this id, as the server does when
// it is saved. It is for tests.
func (p *Plugin) CheckConfig(id string, config string) []Problem {
	for _, evaluator := range p.Evaluators {
		if evaluator.info().id == id {
			return evaluator.check(config)
		}
	}
	return []Problem{{Message: "unknown evaluator " + id}}
}

// Evaluate scores one item with the evaluator of this id and a JSON configuration, as the server does. It is for
// tests.
func (p *Plugin) Evaluate(id string, item *Item, config string) ([]Score, error) {
	for _, evaluator := range p.Evaluators {
		if evaluator.info().id == id {
			return evaluator.evaluate(item, config)
		}
	}
	return nil, InvalidConfig("unknown evaluator %s", id)
}

// Schema returns the JSON Schema of the configuration of an evaluator.
func (p *Plugin) Schema(id string) string {
	for _, evaluator := range p.Evaluators {
		if info := evaluator.info(); info.id == id {
			return info.schema
		}
	}
	return ""
}

// Item is the item that is scored. Only the parts in Needs of the evaluator are present, if the data has them.
type Item struct {
	// ID is for log lines only: a score must not depend on it.
	ID                            string
	Input, Output, ExpectedOutput *Payload
	// Metadata is the text of a JSON object, or empty.
	Metadata string
	Trace    *TraceRef
	// Session is the id of the scored session, for GetSession and SessionTraces; otherwise empty.
	Session string
	// Run is the id of the scored run of an experiment, for GetRun and RunItems; otherwise empty.
	Run string
}

// TraceRef refers to the recorded execution of an item.
type TraceRef struct {
	TraceID string
	// ObservationID is empty when the whole trace is scored.
	ObservationID string
}

// Payload is a JSON value: the content of a string, or the JSON text of any other value.
type Payload struct {
	// Text is the string itself, or the JSON text of any other value.
	Text   string
	IsJSON bool
}

// Text returns the payload of a string.
func Text(text string) *Payload { return &Payload{Text: text} }

// JSON returns the payload of any other value, from its JSON text.
func JSON(text string) *Payload { return &Payload{Text: text, IsJSON: true} }

// Decode reads the value into the value that `into` points to, as encoding/json does.
func (p *Payload) Decode(into any) error {
	text := []byte(p.Text)
	if !p.IsJSON {
		text, _ = json.Marshal(p.Text)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return InvalidInput("%v", err)
	}
	return nil
}

// OutputText returns the output as text, or InvalidInput if it is absent.
func (i *Item) OutputText() (string, error) { return text(i.Output, "output") }

// InputText returns the input as text, or InvalidInput if it is absent.
func (i *Item) InputText() (string, error) { return text(i.Input, "input") }

// ExpectedText returns the expected output as text, or InvalidInput if it is absent.
func (i *Item) ExpectedText() (string, error) { return text(i.ExpectedOutput, "expected output") }

func text(payload *Payload, name string) (string, error) {
	if payload == nil {
		return "", InvalidInput("the item has no %s", name)
	}
	return payload.Text, nil
}

// Kind is the kind of an Error, which determines how the host continues.
type Kind uint8

// The kinds of errors, in the order of the contract.
const (
	KindInvalidConfig Kind = iota
	KindInvalidInput
	KindNotApplicable
	KindUpstream
	KindTransient
	KindInternal
)

// Error is the reason why there is no score. The message is shown to users. Any other error is treated as
// KindInternal.
type Error struct {
	Kind    Kind
	Message string
}

func (e *Error) Error() string { return e.Message }

// InvalidConfig returns the error for a configuration that satisfies its schema and is invalid nevertheless.
func InvalidConfig(format string, args ...any) error { return failed(KindInvalidConfig, format, args) }

// InvalidInput returns the error for a part of the item that is absent or has an invalid shape.
func InvalidInput(format string, args ...any) error { return failed(KindInvalidInput, format, args) }

// NotApplicable returns the error for an item with nothing to measure. It is recorded as skipped, not as 0.
func NotApplicable(format string, args ...any) error { return failed(KindNotApplicable, format, args) }

// Transient returns the error for a failure that another attempt may not have.
func Transient(format string, args ...any) error { return failed(KindTransient, format, args) }

func failed(kind Kind, format string, args []any) error {
	return &Error{kind, fmt.Sprintf(format, args...)}
}
