// A judge that takes what the package has beyond the template, and fails as its configuration requests.
package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"perpend"
)

type config struct {
	Mode string `json:"mode" default:"judge" enum:"judge,trace,random,grow,sleep,invalid-config,not-applicable,transient,error,panic,loop,memory"`
}

type verdict struct {
	Verdict string  `json:"verdict"`
	Points  float64 `json:"points"`
}

var plugin = perpend.Plugin{
	Name:    "acme/judge",
	Version: "0.1.0",
	Evaluators: []perpend.Definition{
		perpend.Evaluator[config]{
			ID:     "judge",
			Title:  "Judge",
			Needs:  perpend.Input | perpend.Output | perpend.Trace,
			Slots:  []perpend.Slot{{Name: "judge", Description: "Judges.", Required: true}},
			Scores: []perpend.ScoreSpec{perpend.NumericScore("points", "points")},
			Check: func(config config) []perpend.Problem {
				if config.Mode != "loop" {
					return nil
				}
				return []perpend.Problem{{Pointer: "/mode", Message: "would not end"}, {Message: "no"}}
			},
			Evaluate: func(item *perpend.Item, config config) ([]perpend.Score, error) {
				switch config.Mode {
				case "judge":
					return judge(item)
				case "trace":
					return trace(item)
				case "random":
					text := fmt.Sprint(rand.Uint64(), time.Now(), perpend.RunTime())
					return []perpend.Score{perpend.Numeric("points", rand.Float64()).WithComment("%s", text)}, nil
				case "grow":
					return grow()
				case "sleep":
					start := time.Now()
					time.Sleep(time.Hour)
					return []perpend.Score{perpend.Numeric("points", time.Since(start).Hours())}, nil
				default:
					return nil, fail(config.Mode)
				}
			},
		},
		detective,
	},
}

func judge(item *perpend.Item) ([]perpend.Score, error) {
	perpend.Log(perpend.Info, "asked", map[string]any{"seed": perpend.Seed()})
	temperature := float32(0)
	completion, err := perpend.Complete(perpend.Request{
		Messages: []perpend.Message{
			{Role: perpend.System, Content: "You judge answers."},
			{Role: perpend.User, Content: item.Input.Text + "\n---\n" + item.Output.Text},
		},
		ResponseSchema: `{"type": "object"}`,
		Temperature:    &temperature,
	})
	if err != nil {
		return nil, fmt.Errorf("the judge: %w", err)
	}
	var answer verdict
	if err := completion.Decode(&answer); err != nil {
		return nil, err
	}
	score := perpend.Numeric("points", answer.Points).WithComment("%s", answer.Verdict)
	score = score.With("model", completion.Model).With("tokens", completion.InputTokens+completion.OutputTokens)
	return []perpend.Score{score}, nil
}

func trace(item *perpend.Item) ([]perpend.Score, error) {
	count, last := 0, perpend.Observation{}
	err := perpend.Observations(item.Trace.TraceID, perpend.Filter{Kinds: []string{"tool"}}, func(observation perpend.Observation) bool {
		count++
		last = observation
		return true
	})
	if err != nil {
		return nil, err
	}
	input, err := perpend.ReadInput(item.Trace.TraceID, last.ID)
	if err != nil {
		return nil, err
	}
	score := perpend.Numeric("points", float64(count)).WithComment("%s: %s", last.Name, input.Text)
	return []perpend.Score{score.OnObservation(last.ID)}, nil
}

// Looks at each of these bytes: several in every page.
const step = 1009

// Takes memory and writes to a stream, in turns; nothing of either may end in the other.
func grow() ([]perpend.Score, error) {
	for i := range 12 {
		fmt.Println("round", i)
		block := make([]byte, 8<<20)
		for j := 0; j < len(block); j += step {
			if block[j] != 0 {
				return nil, fmt.Errorf("byte %d of block %d is not new", j, i)
			}
			block[j] = byte(i + 1)
		}
		kept = append(kept, block)
	}
	for i, block := range kept {
		for j := 0; j < len(block); j += step {
			if block[j] != byte(i+1) {
				return nil, fmt.Errorf("byte %d of block %d was written over", j, i)
			}
		}
	}
	return []perpend.Score{perpend.Numeric("points", float64(len(kept)))}, nil
}

var kept [][]byte

func fail(mode string) error {
	switch mode {
	case "invalid-config":
		return perpend.InvalidConfig("requested")
	case "not-applicable":
		return perpend.NotApplicable("requested")
	case "transient":
		return perpend.Transient("requested")
	case "panic":
		panic("requested")
	case "loop":
		for {
		}
	case "memory":
		for {
			kept = append(kept, make([]byte, 16<<20))
		}
	default:
		return errors.New("requested")
	}
}

func init() { perpend.Export(&plugin) }

func main() {}
