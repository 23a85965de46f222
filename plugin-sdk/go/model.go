package perpend

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Role is the role of the author of a message.
type Role uint8

// The roles, in the order of the contract.
const (
	System Role = iota
	User
	Assistant
	// ToolRole is the role of the plug-in for results of tool calls.
	ToolRole
)

// Message is a message of a conversation: a text and further parts.
type Message struct {
	Role Role
	// Content is the text, before Parts. It is optional for a message with Parts.
	Content string
	Parts   []MessagePart
}

// MessagePart is a part of a message: TextPart, ImagePart, AudioPart, FilePart, ToolCall or ToolResult.
type MessagePart interface{ isMessagePart() }

// TextPart is a text.
type TextPart string

// ImagePart is an image: the id of a stored medium of the project, as in the recorded data. The host loads it.
type ImagePart string

// AudioPart is audio: the id of a stored medium.
type AudioPart string

// FilePart is another file: the id of a stored medium.
type FilePart string

// ToolCall is a call of a tool by the model; a part of messages of the assistant.
type ToolCall struct {
	// ID is the identifier that the result refers to.
	ID, Name string
	// Arguments is the text of a JSON object, which may violate the schema of the tool.
	Arguments string
}

// ToolResult is the result of a ToolCall; a part of messages of ToolRole.
type ToolResult struct {
	CallID string
	// Content is the output for the model.
	Content string
	// IsError is true when the tool failed; Content is the reason.
	IsError bool
}

func (TextPart) isMessagePart()   {}
func (ImagePart) isMessagePart()  {}
func (AudioPart) isMessagePart()  {}
func (FilePart) isMessagePart()   {}
func (ToolCall) isMessagePart()   {}
func (ToolResult) isMessagePart() {}

// all returns the text and the parts.
func (m Message) all() []MessagePart {
	if m.Content == "" && len(m.Parts) > 0 {
		return m.Parts
	}
	return slices.Concat([]MessagePart{TextPart(m.Content)}, m.Parts)
}

// Tool is a function of the plug-in that the model may call; see ToolOf.
type Tool struct {
	// Name is 1 to 64 letters, digits, _ and -, unique in the request.
	Name string
	// Description is the description for the model: when and how to use the tool.
	Description string
	// Parameters is the JSON Schema of the arguments, whose type is object.
	Parameters string
}

// ToolOf returns a tool whose arguments are a T: a struct with the tags of a configuration.
func ToolOf[T any](name, description string) Tool {
	return Tool{Name: name, Description: description, Parameters: schemaOf[T]()}
}

// Decode reads the arguments into the value that `into` points to, which may contain defaults. The error is
// suitable as the content of a failed result.
func (c ToolCall) Decode(into any) error {
	if err := json.Unmarshal([]byte(c.Arguments), into); err != nil {
		return fmt.Errorf("invalid arguments of %s: %w", c.Name, err)
	}
	return nil
}

// Result returns the result of the call: the content for the model, or the error of the tool.
func (c ToolCall) Result(content string, err error) ToolResult {
	if err != nil {
		return ToolResult{CallID: c.ID, Content: err.Error(), IsError: true}
	}
	return ToolResult{CallID: c.ID, Content: content}
}

// ToolChoice determines whether the model must call a tool.
type ToolChoice uint8

// The choices, in the order of the contract.
const (
	// ToolAuto lets the model decide.
	ToolAuto ToolChoice = iota
	// ToolRequired means that the model must call a tool.
	ToolRequired
	// ToolNone means that the model must not call a tool; the messages may contain results of earlier calls.
	ToolNone
	// ToolNamed means that the model must call the tool Request.ToolName.
	ToolNamed
)

// CacheMode is the use of the response cache.
type CacheMode uint8

// The modes, in the order of the contract.
const (
	// CacheStandard is the mode configured for the run; recommended.
	CacheStandard CacheMode = iota
	// CacheRefresh calls the model and replaces the cached response.
	CacheRefresh
	// CacheBypass neither reads nor writes the cache.
	CacheBypass
)

// Request is a request for a completion. Empty fields are not sent.
type Request struct {
	// Slot is empty for the first declared slot.
	Slot     string
	Messages []Message
	// ResponseSchema is the JSON Schema of the answer; Completion.Structured satisfies it.
	ResponseSchema  string
	Temperature     *float32
	TopP            *float32
	MaxOutputTokens uint32
	Seed            *uint64
	Stop            []string
	// TopLogprobs is the number of alternatives of each token; Completion.Probabilities requires it.
	TopLogprobs uint8
	Cache       CacheMode
	// Extra is a JSON object with settings of the provider.
	Extra string
	// Tools are the tools that the model may call. The host does not execute them: see Results.
	Tools      []Tool
	ToolChoice ToolChoice
	// ToolName is the name of the tool for ToolNamed.
	ToolName string
}

// Results returns the next request of a conversation with tools, with the reply of the model and the results of
// its calls.
func (r Request) Results(reply Completion, results ...ToolResult) Request {
	calls := make([]MessagePart, len(reply.ToolCalls))
	for i, call := range reply.ToolCalls {
		calls[i] = call
	}
	answers := make([]MessagePart, len(results))
	for i, result := range results {
		answers[i] = result
	}
	r.Messages = append(slices.Clip(r.Messages),
		Message{Role: Assistant, Content: reply.Text, Parts: calls}, Message{Role: ToolRole, Parts: answers})
	return r
}

// Completion is the answer of a model.
type Completion struct {
	// Text may be empty when the model calls tools.
	Text string
	// Structured is JSON text, present when a response schema was set and the model did not call tools instead.
	Structured string
	// FinishReason is stop, length, content-filter, tool-calls or other.
	FinishReason              string
	InputTokens, OutputTokens uint64
	Logprobs                  []TokenLogprob
	// ToolCalls are the calls of tools, in the order of the model.
	ToolCalls []ToolCall
	Model     string
	FromCache bool
	handle      handle
}

// TokenLogprob is a token with its alternatives, ordered by descending probability.
type TokenLogprob struct {
	Token        string
	Logprob      float32
	Alternatives []TokenLogprob
}

// Decode reads the structured answer into the value that `into` points to.
func (c *Completion) Decode(into any) error {
	if err := json.Unmarshal([]byte(c.Structured), into); err != nil {
		return &Error{KindInternal, "invalid structured answer of the model: " + err.Error()}
	}
	return nil
}

// Place is the position of a choice in an answer: Whole, Member or Offset.
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

// Whole is the place of a choice that is the whole answer, with optional white space around it.
func Whole() Place { return Place{} }

// Member is the place of a choice in the member of this name of a JSON object: a string, a boolean or a number.
func Member(name string) Place { return Place{kind: member, member: name} }

// Offset is the place of a choice that begins at this byte of Completion.Text.
func Offset(byte uint64) Place { return Place{kind: offset, offset: byte} }

// Share is the probability of one choice, 0 to 1.
type Share struct {
	Choice      string
	Probability float64
}

// Distribution has the probabilities of the choices.
type Distribution struct {
	// Shares has one element for each choice, in order; their sum is 1.
	Shares []Share
	// Margin is the probability of the first choice minus that of the second.
	Margin float64
	// Coverage is the total probability of the tokens that begin a choice. Below about 0.9 the shares are not reliable.
	Coverage float64
}

// Probabilities returns the probability of each of the choices, from the log-probabilities of the tokens that
// distinguish them; set TopLogprobs in the request. Choices are plain text: yes and not "yes", true for a boolean.
// The result is nil without log-probabilities, or when no choice begins at the place.
//
// The host computes it, and keeps the answer until the end of the call or Release.
func (c *Completion) Probabilities(choices []string, place Place) *Distribution {
	return host.Probable(c, choices, place)
}

// Release frees the answer in the host: Probabilities returns nil afterwards, and the fields are kept. It is only
// necessary for evaluators that request more than 32 MiB of log-probabilities, the limit of the host. Answers without
// log-probabilities are not kept in the host.
func (c *Completion) Release() { c.handle.release() }

// Answer is the result of one request of CompleteAll.
type Answer struct {
	Completion Completion
	Err        error
}

var finishReasons = []string{"stop", "length", "content-filter", "tool-calls", "other"}

// Complete calls a model. Return its error unchanged: the host decides whether to retry.
func Complete(request Request) (Completion, error) {
	answer := CompleteAll([]Request{request})[0]
	return answer.Completion, answer.Err
}

// CompleteAll sends at most 64 requests concurrently. The answers are in the order of the requests.
func CompleteAll(requests []Request) []Answer { return host.CompleteAll(requests) }

// Embed returns the vector of each text, at most 256. An empty slot is the first one for embeddings.
func Embed(slot string, texts []string) ([][]float32, error) { return host.Embed(slot, texts) }
