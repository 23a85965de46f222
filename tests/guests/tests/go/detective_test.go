package main

import (
	"strings"
	"testing"
	"time"

	"perpend"
)

// A trace of one step, and a model that searches it once.
func host(t *testing.T) perpend.Host {
	return perpend.Host{
		Complete: func(request perpend.Request) (perpend.Completion, error) {
			if request.ToolChoice == perpend.ToolNamed {
				call := perpend.ToolCall{ID: "c1", Name: "search", Arguments: `{"text": "out"}`}
				return perpend.Completion{ToolCalls: []perpend.ToolCall{call}}, nil
			}
			last := request.Messages[len(request.Messages)-1]
			result := perpend.ToolResult{CallID: "c1", Content: "o1 output 3 timed out"}
			if last.Role != perpend.ToolRole || last.Parts[0] != perpend.MessagePart(result) {
				t.Errorf("%+v", last)
			}
			return perpend.Completion{Text: "no", Model: "test"}, nil
		},
		Probabilities: func(completion perpend.Completion, choices []string, place perpend.Place) *perpend.Distribution {
			if completion.Text != "no" || place != perpend.Whole() || len(choices) != 2 {
				return nil
			}
			return &perpend.Distribution{
				Shares: []perpend.Share{{Choice: "yes", Probability: 0.1}, {Choice: "no", Probability: 0.9}}, Margin: 0.8, Coverage: 1,
			}
		},
		OutlinePage: func(traceID, parentID, cursor string) ([]perpend.OutlineEntry, string, error) {
			if cursor == "" {
				return []perpend.OutlineEntry{{ID: "o1", Kind: "agent"}}, "next", nil
			}
			entry := perpend.OutlineEntry{
				ID: "o2", ParentID: "o1", Depth: 1, Kind: "tool", Name: "fetch", Severity: "error", HasEnd: true, Duration: time.Second,
			}
			return []perpend.OutlineEntry{entry}, "", nil
		},
		Hits: func(traceID, text string, limit uint32) ([]perpend.Hit, error) {
			return []perpend.Hit{{ObservationID: "o1", Part: perpend.Output, Offset: 3, Excerpt: "timed " + text}}, nil
		},
		Part: func(traceID, observationID string, part perpend.Part) (*perpend.Payload, error) {
			return perpend.Text("Zürich"), nil
		},
		Session: func(id string) (perpend.SessionInfo, error) {
			return perpend.SessionInfo{ID: id, TraceCount: 1, UserIDs: []string{"ann"}}, nil
		},
		SessionPage: func(sessionID, cursor string) ([]perpend.TraceInfo, string, error) {
			return []perpend.TraceInfo{{ID: "t1"}}, "", nil
		},
		Run: func(id string) (perpend.RunInfo, error) {
			return perpend.RunInfo{ID: id, Name: "nightly", ItemCount: 1}, nil
		},
		RunPage: func(runID, cursor string) ([]perpend.RunItem, string, error) {
			return []perpend.RunItem{{ID: "i1", Output: perpend.Text("4"), ExpectedOutput: perpend.Text("4")}}, "", nil
		},
	}
}

func TestTheHostOfATestAnswersAllThatAnEvaluatorAsks(t *testing.T) {
	defer perpend.UseHost(host(t))()
	item := &perpend.Item{
		Output: perpend.Text("fine"), Trace: &perpend.TraceRef{TraceID: "t1"}, Session: "s1", Run: "r1",
	}
	comments := map[string]string{
		"trace":   "2 steps, 1 deep, error in fetch after 1000 ms\nno by test",
		"session": "s1 of ann in 0 ms: t1",
		"run":     "nightly, 1 items: i1",
	}
	for look, comment := range comments {
		scores, err := plugin.Evaluate("detective", item, `{"look": "`+look+`"}`)
		if err != nil || scores[0].Comment != comment {
			t.Errorf("%s: %v %+v", look, err, scores)
		}
	}
}

func TestARangeBeginsAndEndsAtCharacters(t *testing.T) {
	defer perpend.UseHost(host(t))()
	slice, err := perpend.ReadRange("t1", "o1", perpend.Output, 2, 2)
	if err != nil || *slice != (perpend.Slice{Text: "ür", Offset: 1, Total: 7}) {
		t.Errorf("%v %+v", err, slice)
	}
	if slice, err = perpend.ReadRange("t1", "o1", perpend.Output, 99, 2); err != nil || slice.Text != "" || slice.Offset != 7 {
		t.Errorf("%v %+v", err, slice)
	}
	if _, err = perpend.ReadRange("t1", "o1", perpend.Trace, 0, 2); err == nil {
		t.Error("a trace has no range")
	}
}

func TestWhatATestDoesNotAnswerIsRefused(t *testing.T) {
	defer perpend.UseHost(perpend.Host{})()
	errs := []error{
		perpend.Outline("t1", "", func(perpend.OutlineEntry) bool { return true }),
		perpend.SessionTraces("s1", func(perpend.TraceInfo) bool { return true }),
		perpend.RunItems("r1", func(perpend.RunItem) bool { return true }),
	}
	_, err := perpend.Search("t1", "x", 1)
	errs = append(errs, err)
	_, err = perpend.ReadRange("t1", "o1", perpend.Input, 0, 1)
	errs = append(errs, err)
	for i, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "UseHost") {
			t.Errorf("%d: %v", i, err)
		}
	}
}
