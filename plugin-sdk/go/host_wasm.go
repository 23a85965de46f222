//go:build wasip1

package perpend

import (
	"slices"
	"time"

	"perpend/internal/perpend_evaluator_context"
	"perpend/internal/perpend_evaluator_log"
	"perpend/internal/perpend_evaluator_model"
	reader "perpend/internal/perpend_evaluator_trace_reader"
	types "perpend/internal/perpend_evaluator_types"
	wit "perpend/internal/wit/types"
)

// Answers what an evaluator asks by asking the host.
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

func (component) CompleteAll(requests []Request) []Answer {
	asked := make([]perpend_evaluator_model.CompletionRequest, len(requests))
	for i, request := range requests {
		messages := make([]perpend_evaluator_model.Message, len(request.Messages))
		for j, message := range request.Messages {
			messages[j] = perpend_evaluator_model.Message{Role: uint8(message.Role), Content: message.Content}
		}
		asked[i] = perpend_evaluator_model.CompletionRequest{
			Slot: some(request.Slot), Messages: messages, ResponseSchema: some(request.ResponseSchema),
			Temperature: someOf(request.Temperature), TopP: someOf(request.TopP),
			MaxOutputTokens: some(request.MaxOutputTokens), Seed: someOf(request.Seed), Stop: request.Stop,
			TopLogprobs: some(request.TopLogprobs), Cache: uint8(request.Cache), Extra: some(request.Extra),
		}
	}
	answers := make([]Answer, len(requests))
	for i, result := range perpend_evaluator_model.CompleteAll(asked) {
		if i == len(answers) {
			break
		}
		if result.Tag() == wit.ResultErr {
			answers[i].Err = modelError(result.Err())
		} else {
			answers[i].Completion = completion(result.Ok())
		}
	}
	return answers
}

func completion(given perpend_evaluator_model.Completion) Completion {
	logprobs := make([]TokenLogprob, len(given.Logprobs))
	for i, token := range given.Logprobs {
		logprobs[i] = TokenLogprob{Token: token.Token, Logprob: token.Logprob}
		for _, other := range token.Alternatives {
			alternative := TokenLogprob{Token: other.Token, Logprob: other.Logprob}
			logprobs[i].Alternatives = append(logprobs[i].Alternatives, alternative)
		}
	}
	return Completion{
		Text: given.Text, Structured: or(given.Structured, ""), FinishReason: named(finishReasons, given.Finish),
		InputTokens: given.Usage.InputTokens, OutputTokens: given.Usage.OutputTokens, Logprobs: logprobs,
		Model: given.Model, FromCache: given.FromCache,
	}
}

func modelError(err perpend_evaluator_model.ModelError) error {
	switch err.Tag() {
	case perpend_evaluator_model.ModelErrorNotGranted:
		return upstream(err.NotGranted())
	case perpend_evaluator_model.ModelErrorInvalidRequest:
		return upstream(err.InvalidRequest())
	case perpend_evaluator_model.ModelErrorBudgetExhausted:
		return upstream(err.BudgetExhausted())
	case perpend_evaluator_model.ModelErrorTimeout:
		return upstream(err.Timeout())
	case perpend_evaluator_model.ModelErrorRateLimited:
		return upstream(err.RateLimited())
	case perpend_evaluator_model.ModelErrorRefused:
		return upstream(err.Refused())
	case perpend_evaluator_model.ModelErrorInvalidResponse:
		return upstream(err.InvalidResponse())
	case perpend_evaluator_model.ModelErrorUnavailable:
		return upstream(err.Unavailable())
	default:
		return upstream("the run was cancelled")
	}
}

func (component) Embed(slot string, texts []string) ([][]float32, error) {
	result := perpend_evaluator_model.Embed(some(slot), texts)
	if result.Tag() == wit.ResultErr {
		return nil, modelError(result.Err())
	}
	return result.Ok(), nil
}

func traceError(err reader.TraceError) error {
	switch err.Tag() {
	case reader.TraceErrorNotGranted:
		return upstream(err.NotGranted())
	case reader.TraceErrorNotFound:
		return upstream(err.NotFound())
	case reader.TraceErrorTooLarge:
		return upstream(err.TooLarge())
	case reader.TraceErrorUnavailable:
		return upstream(err.Unavailable())
	default:
		return upstream("the run was cancelled")
	}
}

func (component) GetTrace(id string) (TraceInfo, error) {
	result := reader.GetTrace(id)
	if result.Tag() == wit.ResultErr {
		return TraceInfo{}, traceError(result.Err())
	}
	given := result.Ok()
	return TraceInfo{
		ID: given.Id, Name: or(given.Name, ""), SessionID: or(given.SessionId, ""), UserID: or(given.UserId, ""),
		Start: at(given.Start), Tags: given.Tags, Metadata: or(given.Metadata, ""),
		ObservationCount: int(given.ObservationCount),
	}, nil
}

// The host gives at most this many at a time.
const page = 500

func (component) ListObservations(traceID string, filter Filter, cursor string) ([]Observation, string, error) {
	wanted := reader.ObservationFilter{ParentId: some(filter.ParentID), Name: some(filter.Name)}
	for _, kind := range filter.Kinds {
		number := slices.Index(kinds, kind)
		if number < 0 {
			return nil, "", &Error{KindInternal, "there is no kind of observation " + kind}
		}
		wanted.Kinds = append(wanted.Kinds, uint8(number))
	}
	result := reader.ListObservations(traceID, wanted, some(cursor), page)
	if result.Tag() == wit.ResultErr {
		return nil, "", traceError(result.Err())
	}
	given := result.Ok()
	observations := make([]Observation, len(given.Observations))
	for i, head := range given.Observations {
		observations[i] = Observation{
			ID: head.Id, ParentID: or(head.ParentId, ""), Kind: named(kinds, head.Kind), Name: or(head.Name, ""),
			Start: at(head.Start), Severity: named(severities, head.Severity),
			StatusMessage: or(head.StatusMessage, ""), Model: or(head.Model, ""),
			InputTokens: or(head.InputTokens, 0), OutputTokens: or(head.OutputTokens, 0),
			InputSize: head.InputSize, OutputSize: head.OutputSize,
		}
		if head.End.Tag() == wit.OptionSome {
			observations[i].End = at(head.End.Some())
		}
	}
	return observations, or(given.NextCursor, ""), nil
}

func (component) Read(traceID, observationID string, part Part) (*Payload, error) {
	if part == Metadata {
		result := reader.ReadMetadata(traceID, observationID)
		if result.Tag() == wit.ResultErr {
			return nil, traceError(result.Err())
		}
		if result.Ok().Tag() == wit.OptionNone {
			return nil, nil
		}
		return JSON(result.Ok().Some()), nil
	}
	read := reader.ReadOutput
	if part == Input {
		read = reader.ReadInput
	}
	result := read(traceID, observationID)
	if result.Tag() == wit.ResultErr {
		return nil, traceError(result.Err())
	}
	return payload(result.Ok()), nil
}

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

func (component) Log(level Level, message, fields string) {
	perpend_evaluator_log.Log(uint8(level), message, some(fields))
}

func (component) Seed() uint64 { return perpend_evaluator_context.Seed() }

func (component) RunTime() time.Time { return at(perpend_evaluator_context.RunTime()) }
