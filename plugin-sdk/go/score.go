package perpend

import (
	"encoding/json"
	"fmt"
)

// Score is one measurement about one item.
type Score struct {
	Name string
	// Value is a float64, a bool, or a string for a category.
	Value any
	// Comment is a short explanation for people.
	Comment string
	// Metadata is for programs; it must go into a JSON object.
	Metadata map[string]any
	// ObservationID attaches the score to an observation of the item's trace.
	ObservationID string
}

// Numeric is a score that is a number; it must be finite.
func Numeric(name string, value float64) Score { return Score{Name: name, Value: value} }

// Boolean is a score that is true or false.
func Boolean(name string, value bool) Score { return Score{Name: name, Value: value} }

// Category is a score out of some names.
func Category(name, value string) Score { return Score{Name: name, Value: value} }

// WithComment is the same score with an explanation.
func (s Score) WithComment(format string, args ...any) Score {
	s.Comment = fmt.Sprintf(format, args...)
	return s
}

// With is the same score with one more member in its metadata.
func (s Score) With(key string, value any) Score {
	metadata := map[string]any{key: value}
	for known, value := range s.Metadata {
		if known != key {
			metadata[known] = value
		}
	}
	s.Metadata = metadata
	return s
}

// OnObservation is the same score, attached to an observation of the item's trace.
func (s Score) OnObservation(id string) Score {
	s.ObservationID = id
	return s
}

func (s Score) metadata() (string, error) {
	if len(s.Metadata) == 0 {
		return "", nil
	}
	text, err := json.Marshal(s.Metadata)
	return string(text), err
}

// ScoreSpec declares one score.
type ScoreSpec struct {
	Name, Description string
	domain            domain
}

type domain struct {
	kind          domainKind
	min, max      *float64
	lowerIsBetter bool
	categories    []string
}

type domainKind uint8

const (
	numbers domainKind = iota
	booleans
	categories
)

// NumericScore declares a number; see Between and LowerIsBetter.
func NumericScore(name, description string) ScoreSpec {
	return ScoreSpec{name, description, domain{kind: numbers}}
}

// ShareScore declares a number from 0 (bad) to 1 (good).
func ShareScore(name, description string) ScoreSpec {
	return NumericScore(name, description).Between(0, 1)
}

// BooleanScore declares a yes or no.
func BooleanScore(name, description string) ScoreSpec {
	return ScoreSpec{name, description, domain{kind: booleans}}
}

// CategoryScore declares one of these names; any name when there are none.
func CategoryScore(name, description string, names ...string) ScoreSpec {
	return ScoreSpec{name, description, domain{kind: categories, categories: names}}
}

// Between is the same declaration for numbers in a range, both ends included.
func (s ScoreSpec) Between(min, max float64) ScoreSpec {
	s.domain.min, s.domain.max = &min, &max
	return s
}

// LowerIsBetter is the same declaration for numbers of which smaller ones are better.
func (s ScoreSpec) LowerIsBetter() ScoreSpec {
	s.domain.lowerIsBetter = true
	return s
}
