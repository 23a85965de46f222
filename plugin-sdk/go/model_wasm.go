//go:build wasip1

package perpend

import (
	model "perpend/internal/perpend_evaluator_model"
	wit "perpend/internal/wit/types"
)

// The answer in the host, which computes probabilities; nil without log-probabilities. Copies share it.
type handle struct{ answer **model.Completion }

func (h handle) release() {
	if h.answer != nil && *h.answer != nil {
		(*h.answer).Drop()
		*h.answer = nil
	}
}

func (component) CompleteAll(requests []Request) []Answer {
	resources := make([]*model.Request, len(requests))
	for i, request := range requests {
		resources[i] = made(request)
	}
	answers := make([]Answer, len(requests))
	for i, result := range model.CompleteAll(resources) {
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

func made(request Request) *model.Request {
	messages := make([]model.Message, len(request.Messages))
	for i, message := range request.Messages {
		messages[i].Role = uint8(message.Role)
		for _, part := range message.all() {
			messages[i].Parts = append(messages[i].Parts, messagePart(part))
		}
	}
	own := model.MakeRequest(messages)
	if request.Slot != "" {
		own.SetSlot(request.Slot)
	}
	if request.ResponseSchema != "" {
		own.SetResponseSchema(request.ResponseSchema)
	}
	if request.Temperature != nil {
		own.SetTemperature(*request.Temperature)
	}
	if request.TopP != nil {
		own.SetTopP(*request.TopP)
	}
	if request.MaxOutputTokens != 0 {
		own.SetMaxOutputTokens(request.MaxOutputTokens)
	}
	if request.Seed != nil {
		own.SetSeed(*request.Seed)
	}
	if len(request.Stop) > 0 {
		own.SetStop(request.Stop)
	}
	if request.TopLogprobs != 0 {
		own.SetTopLogprobs(request.TopLogprobs)
	}
	if request.Cache != CacheStandard {
		own.SetCache(uint8(request.Cache))
	}
	if request.Extra != "" {
		own.SetExtra(request.Extra)
	}
	if len(request.Tools) > 0 || request.ToolChoice != ToolAuto {
		setTools(own, request)
	}
	return own
}

func messagePart(part MessagePart) model.Part {
	switch part := part.(type) {
	case TextPart:
		return model.MakePartText(string(part))
	case ImagePart:
		return model.MakePartImage(string(part))
	case AudioPart:
		return model.MakePartAudio(string(part))
	case FilePart:
		return model.MakePartFile(string(part))
	case ToolCall:
		return model.MakePartToolCall(model.ToolCall{Id: part.ID, Name: part.Name, Arguments: part.Arguments})
	case ToolResult:
		return model.MakePartToolResult(model.ToolResult{
			CallId: part.CallID, Content: part.Content, IsError: part.IsError,
		})
	default:
		panic("a part of a message is nil")
	}
}

func setTools(own *model.Request, request Request) {
	tools := make([]model.Tool, len(request.Tools))
	for i, tool := range request.Tools {
		tools[i] = model.Tool{Name: tool.Name, Description: tool.Description, Parameters: tool.Parameters}
	}
	choice := model.MakeToolChoiceAuto()
	switch request.ToolChoice {
	case ToolRequired:
		choice = model.MakeToolChoiceRequired()
	case ToolNone:
		choice = model.MakeToolChoiceNone()
	case ToolNamed:
		choice = model.MakeToolChoiceNamed(request.ToolName)
	}
	own.SetTools(tools, choice)
}

func completion(given *model.Completion) Completion {
	usage := given.Usage()
	reply := Completion{
		Text: given.Text(), Structured: or(given.Structured(), ""), FinishReason: named(finishReasons, given.Finish()),
		InputTokens: usage.InputTokens, OutputTokens: usage.OutputTokens, Model: given.Model(), FromCache: given.FromCache(),
	}
	for _, token := range given.Logprobs() {
		own := TokenLogprob{Token: token.Token, Logprob: token.Logprob}
		for _, other := range token.Alternatives {
			own.Alternatives = append(own.Alternatives, TokenLogprob{Token: other.Token, Logprob: other.Logprob})
		}
		reply.Logprobs = append(reply.Logprobs, own)
	}
	for _, call := range given.ToolCalls() {
		reply.ToolCalls = append(reply.ToolCalls, ToolCall{ID: call.Id, Name: call.Name, Arguments: call.Arguments})
	}
	if len(reply.Logprobs) > 0 {
		reply.handle.answer = &given
	} else {
		given.Drop()
	}
	return reply
}

func (component) Probable(reply *Completion, choices []string, place Place) *Distribution {
	if reply.handle.answer == nil || *reply.handle.answer == nil {
		return nil
	}
	at := model.MakePlaceWhole()
	switch place.kind {
	case member:
		at = model.MakePlaceMember(place.member)
	case offset:
		at = model.MakePlaceOffset(place.offset)
	}
	found := (*reply.handle.answer).Probabilities(choices, at)
	if found.Tag() == wit.OptionNone {
		return nil
	}
	given := found.Some()
	distribution := Distribution{Margin: given.Margin, Coverage: given.Coverage}
	for _, share := range given.Shares {
		distribution.Shares = append(distribution.Shares, Share{Choice: share.Choice, Probability: share.Probability})
	}
	return &distribution
}

func modelError(err model.ModelError) error {
	switch err.Tag() {
	case model.ModelErrorNotGranted:
		return upstream(err.NotGranted())
	case model.ModelErrorInvalidRequest:
		return upstream(err.InvalidRequest())
	case model.ModelErrorBudgetExhausted:
		return upstream(err.BudgetExhausted())
	case model.ModelErrorTimeout:
		return upstream(err.Timeout())
	case model.ModelErrorRateLimited:
		return upstream(err.RateLimited())
	case model.ModelErrorRefused:
		return upstream(err.Refused())
	case model.ModelErrorInvalidResponse:
		return upstream(err.InvalidResponse())
	case model.ModelErrorUnavailable:
		return upstream(err.Unavailable())
	default:
		return upstream("the run was cancelled")
	}
}

func (component) Embed(slot string, texts []string) ([][]float32, error) {
	result := model.Embed(some(slot), texts)
	if result.Tag() == wit.ResultErr {
		return nil, modelError(result.Err())
	}
	return result.Ok(), nil
}
