// An evaluator that looks into traces with a model that calls tools, and into sessions and runs.
package main

import (
	"errors"
	"fmt"
	"strings"

	"perpend"
)

type look struct {
	Look string `json:"look" enum:"trace,session,run,all"`
}

type search struct {
	Text string `json:"text" doc:"What to look for."`
}

type reading struct {
	Observation string `json:"observation"`
	Offset      uint64 `json:"offset"`
}

var detective = perpend.Evaluator[look]{
	ID:    "detective",
	Title: "Detective",
	Needs: perpend.Output | perpend.Trace,
	Slots: []perpend.Slot{
		{Name: "judge", Description: "Judges."}, {Name: "vectors", Description: "Makes vectors.", Embedding: true},
	},
	Scores: []perpend.ScoreSpec{
		perpend.NumericScore("found", "what was found"),
		perpend.ShareScore("margin", "how sure the model was"),
		perpend.ShareScore("coverage", "how much the shares say"),
	},
	Evaluate: func(item *perpend.Item, config look) ([]perpend.Score, error) {
		switch config.Look {
		case "trace":
			return investigate(item)
		case "all":
			return all(item.Trace.TraceID)
		case "session":
			return session(item.Session)
		default:
			return run(item.Run)
		}
	},
}

func investigate(item *perpend.Item) ([]perpend.Score, error) {
	traceID := item.Trace.TraceID
	outline, err := outlined(traceID)
	if err != nil {
		return nil, err
	}
	request := perpend.Request{
		Messages: []perpend.Message{
			{Role: perpend.System, Content: "Did it work? Say yes or no."},
			{Role: perpend.User, Content: item.Output.Text, Parts: []perpend.MessagePart{perpend.ImagePart("m1")}},
		},
		TopLogprobs: 5,
		Tools: []perpend.Tool{
			perpend.ToolOf[search]("search", "Finds a text in the trace."),
			perpend.ToolOf[reading]("read", "Reads on from a place."),
		},
		ToolChoice: perpend.ToolNamed,
		ToolName:   "search",
	}
	for range 5 {
		answer, err := perpend.Complete(request)
		if err != nil {
			return nil, err
		}
		if len(answer.ToolCalls) == 0 {
			return judged(answer, outline)
		}
		var results []perpend.ToolResult
		for _, call := range answer.ToolCalls {
			results = append(results, call.Result(carriedOut(traceID, call)))
		}
		request = request.Results(answer, results...)
		request.ToolChoice = perpend.ToolAuto
	}
	return nil, errors.New("the model does not come to an end")
}

func outlined(traceID string) (string, error) {
	count, depth, failed := 0, 0, ""
	err := perpend.Outline(traceID, "", func(entry perpend.OutlineEntry) bool {
		count++
		depth = max(depth, entry.Depth)
		if entry.Severity == "error" && entry.Kind == "tool" && entry.HasEnd && entry.ParentID == "o1" {
			failed = fmt.Sprintf("%s after %d ms", entry.Name, entry.Duration.Milliseconds())
		}
		return true
	})
	return fmt.Sprintf("%d steps, %d deep, error in %s", count, depth, failed), err
}

func carriedOut(traceID string, call perpend.ToolCall) (string, error) {
	if call.Name == "search" {
		var wanted search
		if err := call.Decode(&wanted); err != nil {
			return "", err
		}
		hits, err := perpend.Search(traceID, wanted.Text, 3)
		if err != nil {
			return "", err
		}
		var lines []string
		for _, hit := range hits {
			if hit.Part == perpend.Output {
				lines = append(lines, fmt.Sprintf("%s output %d %s", hit.ObservationID, hit.Offset, hit.Excerpt))
			}
		}
		return strings.Join(lines, "\n"), nil
	}
	var wanted reading
	if err := call.Decode(&wanted); err != nil {
		return "", err
	}
	slice, err := perpend.ReadRange(traceID, wanted.Observation, perpend.Output, wanted.Offset, 5)
	if err != nil || slice == nil || slice.Offset != wanted.Offset || slice.Total != 23 {
		return "", fmt.Errorf("%v %w", slice, err)
	}
	return slice.Text, nil
}

func judged(answer perpend.Completion, outline string) ([]perpend.Score, error) {
	copied := answer
	found := answer.Probabilities([]string{"yes", "no"}, perpend.Whole())
	if found == nil || answer.Probabilities([]string{"yes"}, perpend.Member("verdict")) != nil {
		return nil, errors.New("the probabilities are wrong")
	}
	answer.Release()
	if copied.Probabilities([]string{"yes", "no"}, perpend.Whole()) != nil {
		return nil, errors.New("the answer was not released")
	}
	score := perpend.Numeric("found", found.Shares[1].Probability)
	return []perpend.Score{
		score.WithComment("%s\n%s by %s", outline, found.Shares[1].Choice, answer.Model),
		perpend.Numeric("margin", found.Margin),
		perpend.Numeric("coverage", found.Coverage),
	}, nil
}

func all(traceID string) ([]perpend.Score, error) {
	temperature, topP, seed := float32(0.5), float32(0.25), uint64(7)
	parts := []perpend.MessagePart{perpend.TextPart("and"), perpend.AudioPart("a1"), perpend.FilePart("f1")}
	answers := perpend.CompleteAll([]perpend.Request{
		{
			Slot: "judge", Messages: []perpend.Message{{Role: perpend.User, Content: "first", Parts: parts}},
			ResponseSchema: `{"type":"object"}`, Temperature: &temperature, TopP: &topP, MaxOutputTokens: 9, Seed: &seed,
			Stop: []string{"END", "."}, Cache: perpend.CacheBypass, Extra: `{"a":1}`, ToolChoice: perpend.ToolNone,
		},
		{Messages: []perpend.Message{{Role: perpend.User, Content: "second"}}},
	})
	if answers[0].Err != nil || answers[1].Err == nil {
		return nil, fmt.Errorf("%+v", answers)
	}
	vectors, err := perpend.Embed("vectors", []string{"a", "bc"})
	if err != nil {
		return nil, err
	}
	sum := vectors[0][0] + vectors[0][1] + vectors[1][0] + vectors[1][1]
	trace, err := perpend.GetTrace(traceID)
	if err != nil {
		return nil, err
	}
	lines := []string{answers[0].Completion.Structured, answers[1].Err.Error(), fmt.Sprint(trace.Name, " ", trace.ObservationCount)}
	filter := perpend.Filter{ParentID: "o1", Kinds: []string{"tool", "agent"}, Name: "search"}
	err = perpend.Observations(traceID, filter, func(step perpend.Observation) bool {
		lines = append(lines, fmt.Sprintf("%s in %d ms", step.ID, step.End.Sub(step.Start).Milliseconds()))
		return true
	})
	if err != nil {
		return nil, err
	}
	for _, read := range []func(string, string) (*perpend.Payload, error){
		perpend.ReadInput, perpend.ReadOutput, perpend.ReadMetadata,
	} {
		part, err := read(traceID, "o2")
		if err != nil {
			return nil, err
		}
		if part == nil {
			lines = append(lines, "none")
		} else {
			lines = append(lines, part.Text)
		}
	}
	return []perpend.Score{perpend.Numeric("found", float64(sum)).WithComment("%s", strings.Join(lines, "; "))}, nil
}

func session(id string) ([]perpend.Score, error) {
	info, err := perpend.GetSession(id)
	if err != nil {
		return nil, err
	}
	var traces []string
	err = perpend.SessionTraces(id, func(trace perpend.TraceInfo) bool {
		line := trace.ID
		if trace.Name != "" {
			line += fmt.Sprintf(" %s %v", trace.Name, trace.Tags)
		}
		traces = append(traces, line)
		return true
	})
	if err != nil {
		return nil, err
	}
	score := perpend.Numeric("found", float64(info.TraceCount)).WithComment("%s of %s in %d ms: %s",
		info.ID, strings.Join(info.UserIDs, ", "), info.End.Sub(info.Start).Milliseconds(), strings.Join(traces, ", "))
	return []perpend.Score{score}, nil
}

func run(id string) ([]perpend.Score, error) {
	info, err := perpend.GetRun(id)
	if err != nil {
		return nil, err
	}
	equal, items := 0, []string{}
	err = perpend.RunItems(id, func(item perpend.RunItem) bool {
		line := item.ID
		if item.Trace != nil {
			line += fmt.Sprintf(" %s %s/%s", item.DatasetItemID, item.Trace.TraceID, item.Trace.ObservationID)
		}
		items = append(items, line)
		if *item.Output == *item.ExpectedOutput {
			equal++
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	score := perpend.Numeric("found", float64(equal)/float64(info.ItemCount))
	return []perpend.Score{score.WithComment("%s, %d items: %s", info.Name, info.ItemCount, strings.Join(items, ", "))}, nil
}
