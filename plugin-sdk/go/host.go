package perpend

import (
	"encoding/json"
	"time"
)

// Role says who a message is from.
type Role uint8

// The roles, in the order of the contract.
const (
	System Role = iota
	User
	Assistant
)

// Message is a part of a conversation.
type Message struct {
	Role    Role
	Content string
}

// CacheMode says how the response cache takes part.
type CacheMode uint8

// The modes, in the order of the contract.
const (
	// CacheStandard is as the run is set up; this is the one to use.
	CacheStandard CacheMode = iota
	// CacheRefresh asks the model again and replaces what is stored.
	CacheRefresh
	// CacheBypass neither reads nor writes.
	CacheBypass
)

// Request asks a model for a completion. What is left empty is not sent.
type Request struct {
	// Slot is empty for the first slot that is declared.
	Slot     string
	Messages []Message
	// ResponseSchema is the JSON Schema of the answer; Completion.Structured was checked against it.
	ResponseSchema  string
	Temperature     *float32
	TopP            *float32
	MaxOutputTokens uint32
	Seed            *uint64
	Stop            []string
	TopLogprobs     uint8
	Cache           CacheMode
	// Extra is a JSON object with settings of the provider.
	Extra string
}

// Completion is what a model answered.
type Completion struct {
	Text string
	// Structured is JSON text, present when a response schema was given.
	Structured string
	// FinishReason is stop, length, content-filter or other.
	FinishReason              string
	InputTokens, OutputTokens uint64
	Logprobs                  []TokenLogprob
	Model                     string
	FromCache                 bool
}

// TokenLogprob is one token with its alternatives, the most likely first.
type TokenLogprob struct {
	Token        string
	Logprob      float32
	Alternatives []TokenLogprob
}

// Decode reads the structured answer into what `into` points at.
func (c *Completion) Decode(into any) error {
	if err := json.Unmarshal([]byte(c.Structured), into); err != nil {
		return &Error{KindInternal, "the answer of the model does not fit: " + err.Error()}
	}
	return nil
}

// Answer is one of several completions.
type Answer struct {
	Completion Completion
	Err        error
}

// TraceInfo is a trace without its observations.
type TraceInfo struct {
	ID, Name, SessionID, UserID string
	Start                       time.Time
	Tags                        []string
	// Metadata is the text of a JSON object, or empty.
	Metadata         string
	ObservationCount int
}

// Observation is one step of a trace without its bulky parts.
type Observation struct {
	ID, ParentID string
	// Kind is span, generation, event, agent, tool, chain, retriever, evaluator, embedding or guardrail.
	Kind, Name string
	Start      time.Time
	// End is zero when the observation has none.
	End time.Time
	// Severity is debug, standard, warning or error.
	Severity, StatusMessage   string
	Model                     string
	InputTokens, OutputTokens uint64
	// InputSize and OutputSize are what reading them costs, in bytes.
	InputSize, OutputSize uint64
}

// Filter chooses observations; what is empty does not count.
type Filter struct {
	// ParentID chooses the direct children of an observation.
	ParentID string
	Kinds    []string
	Name     string
}

var (
	kinds = []string{"span", "generation", "event", "agent", "tool", "chain", "retriever", "evaluator",
		"embedding", "guardrail"}
	severities    = []string{"debug", "standard", "warning", "error"}
	finishReasons = []string{"stop", "length", "content-filter", "other"}
)

// Level is the weight of a log line.
type Level uint8

// The levels, in the order of the contract.
const (
	Debug Level = iota
	Info
	Warn
	Severe
)

// Complete asks a model. An error can be returned as it is: the host decides whether to try again.
func Complete(request Request) (Completion, error) {
	answer := CompleteAll([]Request{request})[0]
	return answer.Completion, answer.Err
}

// CompleteAll asks several questions at once, at most 64. Answers stand in the order of the requests.
func CompleteAll(requests []Request) []Answer { return host.CompleteAll(requests) }

// Embed makes a vector of each text, at most 256. The slot is empty for the first one of that kind.
func Embed(slot string, texts []string) ([][]float32, error) { return host.Embed(slot, texts) }

// GetTrace reads the trace of an item.
func GetTrace(id string) (TraceInfo, error) { return host.GetTrace(id) }

// Observations reads the observations of a trace page by page and hands each to `each`, ordered by start,
// until it returns false.
func Observations(traceID string, filter Filter, each func(Observation) bool) error {
	for cursor := ""; ; {
		page, next, err := host.ListObservations(traceID, filter, cursor)
		if err != nil {
			return err
		}
		for _, observation := range page {
			if !each(observation) {
				return nil
			}
		}
		if next == "" {
			return nil
		}
		cursor = next
	}
}

// ReadInput reads the input of an observation; nil when it has none.
func ReadInput(traceID, observationID string) (*Payload, error) {
	return host.Read(traceID, observationID, Input)
}

// ReadOutput reads the output of an observation; nil when it has none.
func ReadOutput(traceID, observationID string) (*Payload, error) {
	return host.Read(traceID, observationID, Output)
}

// ReadMetadata reads the metadata of an observation; nil when it has none.
func ReadMetadata(traceID, observationID string) (*Payload, error) {
	return host.Read(traceID, observationID, Metadata)
}

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

// Seed is equal for equal calls, on every machine: seed random generators with it.
func Seed() uint64 { return host.Seed() }

// RunTime is when the run started. Clocks stand still at it.
func RunTime() time.Time { return host.RunTime() }

// upstream is a failed call to the host.
func upstream(message string) error { return &Error{KindUpstream, message} }
