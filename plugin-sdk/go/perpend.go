// Package perpend makes a plug-in out of functions: an evaluator is a description and one function from an
// item to scores.
//
//	type config struct {
//		MaxChars int `json:"max_chars" default:"80" min:"0" doc:"The largest number that passes."`
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
// Every call gets a fresh instance: what is kept in a variable is gone with the call. Package variables
// are initialised in each call too, so tables and regular expressions belong into the function that
// needs them. `go test` runs evaluators as the plain functions they are; see UseHost for those that ask
// models or read traces.
package perpend

import (
	"encoding/json"
	"fmt"
)

// Plugin is what one component offers.
type Plugin struct {
	// Name is vendor/name, each 1 to 64 of a-z, 0-9 and -.
	Name string
	// Version is semantic. A published name and version never changes.
	Version     string
	Description string
	Evaluators  []Definition
}

// Definition is an Evaluator of any configuration.
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

// Part is a part of an item. What an evaluator does not name is not loaded.
type Part uint8

// The parts of an item.
const (
	Input Part = 1 << iota
	Output
	ExpectedOutput
	Metadata
	Trace
)

// Slot is a place where whoever configures the evaluator puts a model.
type Slot struct {
	Name, Description string
	// Embedding is set for a model that makes vectors, not text.
	Embedding bool
	// Required is set when there is no evaluator without a model here.
	Required bool
}

// Evaluator is one scoring function. C is its configuration: a struct whose fields become the JSON
// Schema that the server checks and people see. Tags: `json` (the name), `doc`, `default`, `enum`
// (separated by commas), `min` and `max`. A field without a default is required unless it is a pointer.
type Evaluator[C any] struct {
	// ID is unique within the plug-in: 1 to 64 of a-z, 0-9 and -, a letter first.
	ID, Title, Description string
	Needs                  Part
	Slots                  []Slot
	Scores                 []ScoreSpec
	// DynamicScores is set when score names depend on the configuration or the data.
	DynamicScores bool
	// Varies is set when equal items and configurations may give different scores.
	Varies bool
	// Evaluate scores one item. No scores and no error means that there is nothing to report.
	Evaluate func(item *Item, config C) ([]Score, error)
	// Check says what a schema cannot: what is wrong with a configuration that satisfies it. Asked when
	// a configuration is saved; may be left out.
	Check func(config C) []Problem
}

// Problem is something wrong with a configuration.
type Problem struct {
	// Pointer is a JSON Pointer into the configuration, such as /min; empty for the whole of it.
	Pointer, Message string
}

// None is the configuration of an evaluator that has nothing to configure.
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

// CheckConfig is what the evaluator of this id has against a configuration, given as JSON: what the
// server asks when one is saved, for tests.
func (p *Plugin) CheckConfig(id string, config string) []Problem {
	for _, evaluator := range p.Evaluators {
		if evaluator.info().id == id {
			return evaluator.check(config)
		}
	}
	return []Problem{{Message: "the plug-in has no evaluator " + id}}
}

// Evaluate scores one item with the evaluator of this id, the configuration given as JSON: what the
// server does, for tests.
func (p *Plugin) Evaluate(id string, item *Item, config string) ([]Score, error) {
	for _, evaluator := range p.Evaluators {
		if evaluator.info().id == id {
			return evaluator.evaluate(item, config)
		}
	}
	return nil, InvalidConfig("the plug-in has no evaluator %s", id)
}

// Schema is the JSON Schema of an evaluator's configuration.
func (p *Plugin) Schema(id string) string {
	for _, evaluator := range p.Evaluators {
		if info := evaluator.info(); info.id == id {
			return info.schema
		}
	}
	return ""
}

// Item is what is being scored. Only parts that the evaluator needs are there, and those that the data
// has.
type Item struct {
	// ID is for log lines only: a score must not depend on it.
	ID                            string
	Input, Output, ExpectedOutput *Payload
	// Metadata is the text of a JSON object, or empty.
	Metadata string
	Trace    *TraceRef
	// Session is the id of the session that is scored, for GetSession and SessionTraces; else empty.
	Session string
	// Run is the id of the run of an experiment that is scored, for GetRun and RunItems; else empty.
	Run string
}

// TraceRef says where the recorded execution can be read from.
type TraceRef struct {
	TraceID string
	// ObservationID is empty when the whole trace is scored.
	ObservationID string
}

// Payload is a JSON value. A string arrives as it is, every other value as JSON text.
type Payload struct {
	// Text is the string itself, or the JSON text of any other value.
	Text   string
	IsJSON bool
}

// Text is a payload that is a string.
func Text(text string) *Payload { return &Payload{Text: text} }

// JSON is a payload of any other kind, from its JSON text.
func JSON(text string) *Payload { return &Payload{Text: text, IsJSON: true} }

// Decode reads the value into what `into` points at, as encoding/json does.
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

// OutputText is the output as text; InvalidInput when there is none.
func (i *Item) OutputText() (string, error) { return text(i.Output, "output") }

// InputText is the input as text; InvalidInput when there is none.
func (i *Item) InputText() (string, error) { return text(i.Input, "input") }

// ExpectedText is the expected output as text; InvalidInput when there is none.
func (i *Item) ExpectedText() (string, error) { return text(i.ExpectedOutput, "expected output") }

func text(payload *Payload, name string) (string, error) {
	if payload == nil {
		return "", InvalidInput("the item has no %s", name)
	}
	return payload.Text, nil
}

// Kind says what happens after an Error.
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

// Error says why there is no score. The kind decides what happens next, the message is for people. Any
// other error counts as KindInternal.
type Error struct {
	Kind    Kind
	Message string
}

func (e *Error) Error() string { return e.Message }

// InvalidConfig: the configuration passed its schema and still cannot be used.
func InvalidConfig(format string, args ...any) error { return failed(KindInvalidConfig, format, args) }

// InvalidInput: a part of the item is absent or has a wrong shape.
func InvalidInput(format string, args ...any) error { return failed(KindInvalidInput, format, args) }

// NotApplicable: there is nothing to measure. Recorded as skipped, never as 0.
func NotApplicable(format string, args ...any) error { return failed(KindNotApplicable, format, args) }

// Transient: another attempt may work.
func Transient(format string, args ...any) error { return failed(KindTransient, format, args) }

func failed(kind Kind, format string, args []any) error {
	return &Error{kind, fmt.Sprintf(format, args...)}
}
