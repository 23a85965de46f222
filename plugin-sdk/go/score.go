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
	// Comment is a short explanation for users.
	Comment string
	// Metadata is further data for programs; it must be representable as a JSON object.
	Metadata map[string]any
	// ObservationID attaches the score to an observation of the item's trace.
	ObservationID string
}

// Numeric returns a numeric score; the value must be finite.
func Numeric(name string, value float64) Score { return Score{Name: name, Value: value} }

// Boolean returns a boolean score.
func Boolean(name string, value bool) Score { return Score{Name: name, Value: value} }

// Category returns a categorical score.
func Category(name, value string) Score { return Score{Name: name, Value: value} }

// WithComment returns the score with a comment.
func (s Score) WithComment(format string, args ...any) Score {
	s.Comment = fmt.Sprintf(format, args...)
	return s
}

// With returns the score with a further member in its metadata.
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

// OnObservation returns the score attached to an observation of the item's trace.
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

// BooleanScore declares a boolean score.
func BooleanScore(name, description string) ScoreSpec {
	return ScoreSpec{name, description, domain{kind: booleans}}
}

// CategoryScore declares a category out of these names, or any name without names.
func CategoryScore(name, description string, names ...string) ScoreSpec {
	return ScoreSpec{name, description, domain{kind: categories, categories: names}}
}

// Between returns the declaration with a range, both ends included.
func (s ScoreSpec) Between(min, max float64) ScoreSpec {
	s.domain.min, s.domain.max = &min, &max
	return s
}

// LowerIsBetter returns the declaration of a score for which smaller values are better.
func (s ScoreSpec) LowerIsBetter() ScoreSpec {
	s.domain.lowerIsBetter = true
	return s
}
