package main

import (
	"testing"

	"perpend"
)

// An evaluator is a function: its tests need neither a server nor a sandbox.
func TestAnOutputOverTheLimitDoesNotPass(t *testing.T) {
	item := &perpend.Item{Output: perpend.Text("Zürich")}
	scores, err := withinLimit(item, maxLength{MaxChars: 5})
	if err != nil {
		t.Fatal(err)
	}
	if scores[0].Value != false || scores[0].Comment != "6 of 5 characters" {
		t.Errorf("%+v", scores[0])
	}
}

func TestTheServerCallsItByIDWithTheConfigurationAsJSON(t *testing.T) {
	item := &perpend.Item{Output: perpend.Text("  yes  ")}
	scores, err := plugin.Evaluate("max-length", item, `{"max_chars": 3, "trim": true}`)
	if err != nil || scores[0].Value != true {
		t.Errorf("%v %v", scores, err)
	}
}
