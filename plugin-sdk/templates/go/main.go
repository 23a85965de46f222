// A Perpend plug-in with one evaluator.
package main

import (
	"strings"
	"unicode/utf8"

	"perpend"
)

// The configuration. The server validates it against its JSON Schema, which `perpend plugin show` prints.
type maxLength struct {
	MaxChars int  `json:"max_chars" default:"80" min:"0" doc:"The maximum number of characters that passes."`
	Trim     bool `json:"trim" default:"false" doc:"Ignore white space at both ends."`
}

var plugin = perpend.Plugin{
	Name:        "example/{{name}}",
	Version:     "0.1.0",
	Description: "Checks on the length of an output",
	Evaluators: []perpend.Definition{
		perpend.Evaluator[maxLength]{
			ID:          "max-length",
			Title:       "Maximum length",
			Description: "Passes when the output is not too long.",
			// The parts of the item that the evaluator reads; others are not loaded.
			Needs:    perpend.Output,
			Scores:   []perpend.ScoreSpec{perpend.BooleanScore("within_limit", "true when the output is not too long")},
			Evaluate: withinLimit,
		},
	},
}

// Passes when the output has at most MaxChars characters.
func withinLimit(item *perpend.Item, config maxLength) ([]perpend.Score, error) {
	output, err := item.OutputText() // an absent output is invalid input, not a score of 0
	if err != nil {
		return nil, err
	}
	if config.Trim {
		output = strings.TrimSpace(output)
	}
	length := utf8.RuneCountInString(output)
	score := perpend.Boolean("within_limit", length <= config.MaxChars)
	return []perpend.Score{score.WithComment("%d of %d characters", length, config.MaxChars)}, nil
}

func init() { perpend.Export(&plugin) }

// Required by the compiler and never called: a component is a library.
func main() {}
