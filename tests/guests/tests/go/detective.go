// An evaluator that looks into traces with a model that calls tools, and into sessions and runs.
package main

import (
	"errors"
	"fmt"
	"strings"

	"perpend"
)

type look struct {
	Look string `json:"look" enum:"trace,session,run"`
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
	Slots: []perpend.Slot{{Name: "judge", Description: "Judges."}},
	Scores: []perpend.ScoreSpec{
		perpend.NumericScore("found", "what was found"),
		perpend.ShareScore("margin", "how sure the model was"),
		perpend.ShareScore("coverage", "how much the shares say"),
	},
	Evaluate: func(item *perpend.Item, config look) ([]perpend.Score, error) {
		switch config.Look {
		case "trace":
			return investigate(item)
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
