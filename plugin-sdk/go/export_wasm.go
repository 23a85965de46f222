//go:build wasip1

package perpend

import (
	"errors"
	"fmt"

	exports "perpend/internal/export_perpend_evaluator_evaluator"
	types "perpend/internal/perpend_evaluator_types"
	wit "perpend/internal/wit/types"
	_ "perpend/internal/wit_exports"
)

// Export sets the plug-in of the component.
func Export(plugin *Plugin) {
	checked = plugin
	exports.Describe = func() types.PluginInfo { return describe(plugin) }
	exports.Evaluate = func(id string, item types.Item, config string) wit.Result[[]types.Score, types.EvalError] {
		scores, err := evaluate(plugin, id, item, config)
		if err != nil {
			return wit.Err[[]types.Score](evalError(err))
		}
		return wit.Ok[[]types.Score, types.EvalError](scores)
	}
}

func describe(plugin *Plugin) types.PluginInfo {
	described := types.PluginInfo{Name: plugin.Name, Version: plugin.Version, Description: plugin.Description}
	for _, evaluator := range plugin.Evaluators {
		info := evaluator.info()
		shown := types.EvaluatorInfo{
			Id: info.id, Title: info.title, Description: info.description, ConfigSchema: info.schema,
			Needs: uint8(info.needs), DynamicScores: info.dynamicScores, Deterministic: !info.varies,
		}
		for _, slot := range info.slots {
			kind := types.SlotKindChat
			if slot.Embedding {
				kind = types.SlotKindEmbedding
			}
			shown.Slots = append(shown.Slots, types.ModelSlot{
				Name: slot.Name, Description: slot.Description, Kind: kind, Required: slot.Required,
			})
		}
		for _, spec := range info.scores {
			shown.Scores = append(shown.Scores, types.ScoreSpec{
				Name: spec.Name, Description: spec.Description, Domain: spec.domain.wit(),
			})
		}
		described.Evaluators = append(described.Evaluators, shown)
	}
	return described
}

func (d domain) wit() types.ScoreDomain {
	switch d.kind {
	case booleans:
		return types.MakeScoreDomainBoolean()
	case categories:
		return types.MakeScoreDomainCategorical(d.categories)
	default:
		return types.MakeScoreDomainNumeric(types.NumericRange{
			Min: someOf(d.min), Max: someOf(d.max), HigherIsBetter: !d.lowerIsBetter,
		})
	}
}

func evaluate(plugin *Plugin, id string, given types.Item, config string) ([]types.Score, error) {
	item := Item{
		ID: given.Id, Input: payload(given.Input), Output: payload(given.Output),
		ExpectedOutput: payload(given.ExpectedOutput), Metadata: or(given.Metadata, ""),
		Trace: traceRef(given.Trace), Session: or(given.Session, ""), Run: or(given.Run, ""),
	}
	scores, err := plugin.Evaluate(id, &item, config)
	if err != nil {
		return nil, err
	}
	shown := make([]types.Score, len(scores))
	for i, score := range scores {
		value, err := scoreValue(score)
		if err != nil {
			return nil, err
		}
		metadata, err := score.metadata()
		if err != nil {
			return nil, fmt.Errorf("the metadata of score %s: %w", score.Name, err)
		}
		shown[i] = types.Score{
			Name: score.Name, Value: value, ObservationId: some(score.ObservationID),
			Comment: some(score.Comment), Metadata: some(metadata),
		}
	}
	return shown, nil
}

func scoreValue(score Score) (types.ScoreValue, error) {
	switch value := score.Value.(type) {
	case float64:
		return types.MakeScoreValueNumeric(value), nil
	case int:
		return types.MakeScoreValueNumeric(float64(value)), nil
	case bool:
		return types.MakeScoreValueBoolean(value), nil
	case string:
		return types.MakeScoreValueCategorical(value), nil
	default:
		return types.ScoreValue{}, fmt.Errorf(
			"the value of score %s must be a float64, an int, a bool or a string, got %T", score.Name, value)
	}
}

func evalError(err error) types.EvalError {
	var known *Error
	if !errors.As(err, &known) {
		return types.MakeEvalErrorInternal(err.Error())
	}
	// The whole text, including wrapping errors.
	message := err.Error()
	switch known.Kind {
	case KindInvalidConfig:
		return types.MakeEvalErrorInvalidConfig(message)
	case KindInvalidInput:
		return types.MakeEvalErrorInvalidInput(message)
	case KindNotApplicable:
		return types.MakeEvalErrorNotApplicable(message)
	case KindUpstream:
		return types.MakeEvalErrorUpstream(message)
	case KindTransient:
		return types.MakeEvalErrorTransient(message)
	default:
		return types.MakeEvalErrorInternal(message)
	}
}
