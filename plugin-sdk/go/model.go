package perpend

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Role says who a message is from.
type Role uint8

// The roles, in the order of the contract.
const (
	System Role = iota
	User
	Assistant
	// ToolRole is the plug-in, with what came of tool calls.
	ToolRole
)

// Message is something that was said: a text, and what else belongs to it.
type Message struct {
	Role Role
	// Content is its text; with Parts it comes before them, and may be left out.
	Content string
	Parts   []MessagePart
}

// MessagePart is a piece of a message: TextPart, ImagePart, AudioPart, FilePart, ToolCall or ToolResult.
type MessagePart interface{ isMessagePart() }

// TextPart is a text.
type TextPart string

// ImagePart is an image by the id of a stored medium of the project, as it stands in the recorded data; the
// host loads it.
type ImagePart string

// AudioPart is a sound by the id of a stored medium.
type AudioPart string

// FilePart is a file of another kind by the id of a stored medium.
type FilePart string

// ToolCall is a model that asks for a tool; a part of messages of the assistant.
type ToolCall struct {
	// ID is what the result names.
	ID, Name string
	// Arguments is the text of a JSON object, which need not fit the schema of the tool.
	Arguments string
}

// ToolResult is what came of a ToolCall; a part of messages of ToolRole.
type ToolResult struct {
	CallID string
	// Content is what the model is to read.
	Content string
	// IsError is set when the tool failed, and Content says why.
	IsError bool
}

func (TextPart) isMessagePart()   {}
func (ImagePart) isMessagePart()  {}
func (AudioPart) isMessagePart()  {}
func (FilePart) isMessagePart()   {}
func (ToolCall) isMessagePart()   {}
func (ToolResult) isMessagePart() {}

// all is the text and the parts.
func (m Message) all() []MessagePart {
	if m.Content == "" && len(m.Parts) > 0 {
		return m.Parts
	}
	return slices.Concat([]MessagePart{TextPart(m.Content)}, m.Parts)
}

// Tool is a function that the model may ask the plug-in to carry out; see ToolOf.
type Tool struct {
	// Name is 1 to 64 letters, digits, _ and -, unique in the request.
	Name string
	// Description tells the model when and how to use it.
	Description string
	// Parameters is the JSON Schema of the arguments, an object at its top.
	Parameters string
}

// ToolOf is a tool whose arguments are a T: a struct, with the tags of a configuration.
func ToolOf[T any](name, description string) Tool {
	return Tool{Name: name, Description: description, Parameters: schemaOf[T]()}
}

// Decode reads the arguments into what `into` points at, which may hold defaults already. The error is good as
// the content of a failed result, so that the model can do better.
func (c ToolCall) Decode(into any) error {
	if err := json.Unmarshal([]byte(c.Arguments), into); err != nil {
		return fmt.Errorf("the arguments of %s cannot be read: %w", c.Name, err)
	}
	return nil
}

// Result is what came of the call: what the model is to read, or with an error why the tool failed.
func (c ToolCall) Result(content string, err error) ToolResult {
	if err != nil {
		return ToolResult{CallID: c.ID, Content: err.Error(), IsError: true}
	}
	return ToolResult{CallID: c.ID, Content: content}
}

// ToolChoice says whether the model has to use a tool.
type ToolChoice uint8

// The choices, in the order of the contract.
const (
	// ToolAuto leaves it to the model.
	ToolAuto ToolChoice = iota
	// ToolRequired makes it call one.
	ToolRequired
	// ToolNone lets it call none; results of earlier calls may still stand in the messages.
	ToolNone
	// ToolNamed makes it call the one that Request.ToolName names.
	ToolNamed
)

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
	// TopLogprobs is how many alternatives of each token are wanted; Completion.Probabilities needs some.
	TopLogprobs uint8
	Cache       CacheMode
	// Extra is a JSON object with settings of the provider.
	Extra string
	// Tools are what the model may ask for. The host carries out none of it: see Results.
	Tools      []Tool
	ToolChoice ToolChoice
	// ToolName goes with ToolNamed.
	ToolName string
}

// Results is the next request of a conversation with tools: what the model said, and what came of each of its
// calls.
func (r Request) Results(said Completion, results ...ToolResult) Request {
	calls := make([]MessagePart, len(said.ToolCalls))
	for i, call := range said.ToolCalls {
		calls[i] = call
	}
	answers := make([]MessagePart, len(results))
	for i, result := range results {
		answers[i] = result
	}
	r.Messages = append(slices.Clip(r.Messages),
		Message{Role: Assistant, Content: said.Text, Parts: calls}, Message{Role: ToolRole, Parts: answers})
	return r
}

// Completion is what a model answered.
type Completion struct {
	// Text may be empty when the model calls tools.
	Text string
	// Structured is JSON text, present when a response schema was given and the model did not call tools instead.
	Structured string
	// FinishReason is stop, length, content-filter, tool-calls or other.
	FinishReason              string
	InputTokens, OutputTokens uint64
	Logprobs                  []TokenLogprob
	// ToolCalls is what the model asks for, in its order.
	ToolCalls []ToolCall
	Model     string
	FromCache bool
	held      held
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

// Place says where in an answer a choice stands: Whole, Member or Offset.
type Place struct {
	kind   placeKind
	member string
	offset uint64
}

type placeKind uint8

const (
	whole placeKind = iota
	member
	offset
)

// Whole is for an answer that is the choice, with white space around it.
func Whole() Place { return Place{} }

// Member is for a choice in the member of this name of a JSON object: a string, a boolean or a number.
func Member(name string) Place { return Place{kind: member, member: name} }

// Offset is for a choice that begins at this byte of Completion.Text.
func Offset(byte uint64) Place { return Place{kind: offset, offset: byte} }

// Share is how probable one choice was: 0 to 1.
type Share struct {
	Choice      string
	Probability float64
}

// Distribution is how probable each choice was.
type Distribution struct {
	// Shares are one for each choice, in order; they sum up to 1.
	Shares []Share
	// Margin is how far the most probable choice is ahead of the next one.
	Margin float64
	// Coverage is the probability of all that was seen to begin a choice. Below about 0.9 the shares say little.
	Coverage float64
}

// Probabilities is how probable each of the choices was, from the log-probabilities of the tokens that tell
// them apart: ask for TopLogprobs. Choices are plain text: yes and not "yes", true for a boolean. Nil when
// there are no log-probabilities, or when none of the choices was begun at the place.
//
// The host computes it, and holds the answer for it until the call ends or Release.
func (c *Completion) Probabilities(choices []string, place Place) *Distribution {
	return host.Probable(c, choices, place)
}

// Release lets the host forget the answer: Probabilities is nil from then on, and the fields stay. For the few
// evaluators that ask for more log-probabilities than the host holds at a time, 32 MiB; answers without any are
// not held.
func (c *Completion) Release() { c.held.release() }

// Answer is one of several completions.
type Answer struct {
	Completion Completion
	Err        error
}

var finishReasons = []string{"stop", "length", "content-filter", "tool-calls", "other"}

// Complete asks a model. An error can be returned as it is: the host decides whether to try again.
func Complete(request Request) (Completion, error) {
	answer := CompleteAll([]Request{request})[0]
	return answer.Completion, answer.Err
}

// CompleteAll asks several questions at once, at most 64. Answers stand in the order of the requests.
func CompleteAll(requests []Request) []Answer { return host.CompleteAll(requests) }

// Embed makes a vector of each text, at most 256. The slot is empty for the first one of that kind.
func Embed(slot string, texts []string) ([][]float32, error) { return host.Embed(slot, texts) }
