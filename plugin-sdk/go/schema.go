package perpend

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// schemaOf returns the JSON Schema of a configuration.
func schemaOf[C any]() string {
	text, err := json.Marshal(schema(reflect.TypeFor[C]()))
	if err != nil {
		panic(err)
	}
	return string(text)
}

// A schema. Members are written in the order of their names, so equal types have equal texts.
type object = map[string]any

func schema(of reflect.Type) object {
	switch of.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return object{"type": "integer", "minimum": 0}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Pointer:
		return schema(of.Elem())
	case reflect.Slice, reflect.Array:
		return object{"type": "array", "items": schema(of.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": schema(of.Elem())}
	case reflect.Struct:
		return structSchema(of)
	default:
		// Any value.
		return object{}
	}
}

func structSchema(of reflect.Type) object {
	properties, required := object{}, []string{}
	for _, field := range reflect.VisibleFields(of) {
		name, isField := jsonName(field)
		if !isField {
			continue
		}
		property := schema(field.Type)
		for _, tag := range []struct{ name, keyword string }{{"min", "minimum"}, {"max", "maximum"}} {
			if text, ok := field.Tag.Lookup(tag.name); ok {
				property[tag.keyword] = number(field, text)
			}
		}
		if doc := field.Tag.Get("doc"); doc != "" {
			property["description"] = doc
		}
		if names := field.Tag.Get("enum"); names != "" {
			property["enum"] = strings.Split(names, ",")
		}
		if text, ok := field.Tag.Lookup("default"); ok {
			property["default"] = json.RawMessage(defaultText(field, text))
		} else if field.Type.Kind() != reflect.Pointer {
			required = append(required, name)
		}
		properties[name] = property
	}
	result := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		result["required"] = required
	}
	return result
}

// jsonName returns the name of a field in JSON, as in encoding/json.
func jsonName(field reflect.StructField) (string, bool) {
	tag := field.Tag.Get("json")
	if !field.IsExported() || field.Anonymous || tag == "-" {
		return "", false
	}
	name, _, _ := strings.Cut(tag, ",")
	if name == "" {
		name = field.Name
	}
	return name, true
}

func number(field reflect.StructField, text string) float64 {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(fmt.Sprintf("the tags min and max of %s must be numbers", field.Name))
	}
	return value
}

// defaultText returns the JSON of a default: the tag, or for a string field the tag as a string.
func defaultText(field reflect.StructField, text string) []byte {
	kind := field.Type
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	if kind.Kind() == reflect.String {
		quoted, _ := json.Marshal(text)
		return quoted
	}
	if !json.Valid([]byte(text)) {
		panic(fmt.Sprintf("the default of %s must be JSON, got %s", field.Name, text))
	}
	return []byte(text)
}

// configOf reads a configuration and fills in defaults. The server has already filled them in; tests may not.
func configOf[C any](text string) (config C, err error) {
	value := reflect.ValueOf(&config).Elem()
	if value.Kind() == reflect.Struct {
		for _, field := range reflect.VisibleFields(value.Type()) {
			if text, ok := field.Tag.Lookup("default"); ok && field.IsExported() {
				into := value.FieldByIndex(field.Index).Addr().Interface()
				if err = json.Unmarshal(defaultText(field, text), into); err != nil {
					return config, fmt.Errorf("invalid default of %s: %w", field.Name, err)
				}
			}
		}
	}
	return config, json.Unmarshal([]byte(text), &config)
}
