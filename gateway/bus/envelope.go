package bus

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
)

// envelopeVersion is the version of the envelope that oslo.messaging writes.
const envelopeVersion = "2.0"

// contextPrefix begins the names of the fields of the caller's context.
const contextPrefix = "_context_"

// maxName is AMQP's bound of a queue's name.
const maxName = 255

// envelope is the body of every message. Message is JSON text.
type envelope struct {
	Version *string `json:"oslo.version"`
	Message *string `json:"oslo.message"`
}

// request is a message to the topic.
type request struct {
	Method    string
	Namespace string
	Version   string
	// Args are the arguments by name, still encoded.
	Args map[string]json.RawMessage
	// MessageID and ReplyQueue say where the reply goes; both are empty for a cast.
	MessageID  string
	ReplyQueue string
	// Timeout is the time without a heartbeat after which the caller gives up; 0 for a caller
	// that expects none.
	Timeout time.Duration
	// UniqueID is the message's own; it stays the same when the message is delivered again.
	UniqueID string
	// APIRequest and Project are from the caller's context.
	APIRequest, Project string
	// Context has the fields of the caller's context, by name.
	Context map[string]json.RawMessage
}

// awaitsReply reports whether the message is a call.
func (r *request) awaitsReply() bool { return r.MessageID != "" && r.ReplyQueue != "" }

// decodeRequest decodes the body of a message, in an envelope of version 2.0 or without one,
// as oslo.messaging does. An error means that no server could answer the message.
func decodeRequest(body []byte) (*request, error) {
	fields, err := open(body)
	if err != nil {
		return nil, err
	}
	r := &request{Version: "1.0", Context: map[string]json.RawMessage{}}
	var timeout any
	for name, to := range map[string]any{
		"method": &r.Method, "namespace": &r.Namespace, "version": &r.Version, "args": &r.Args,
		"_msg_id": &r.MessageID, "_reply_q": &r.ReplyQueue, "_unique_id": &r.UniqueID, "_timeout": &timeout,
	} {
		if raw, ok := fields[name]; ok {
			if err := json.Unmarshal(raw, to); err != nil {
				return nil, fmt.Errorf("%s is of a wrong type", name)
			}
		}
	}
	if len(r.ReplyQueue) > maxName {
		return nil, fmt.Errorf("the name of the reply queue has %d bytes; the most is %d", len(r.ReplyQueue), maxName)
	}
	if r.Method == "" {
		return nil, errors.New("no method is named")
	}
	if seconds, ok := timeout.(float64); ok && seconds >= 2 && seconds <= 1e6 {
		r.Timeout = time.Duration(seconds * float64(time.Second))
	}
	// A context that is not Nova's is no reason to refuse a request.
	for field, raw := range fields {
		if name, ok := strings.CutPrefix(field, contextPrefix); ok {
			r.Context[name] = raw
		}
	}
	_ = json.Unmarshal(r.Context["request_id"], &r.APIRequest)
	_ = json.Unmarshal(r.Context["project_id"], &r.Project)
	return r, nil
}

// open gives the fields of a message, out of its envelope.
func open(body []byte) (map[string]json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil || fields == nil {
		return nil, errors.New("the body is not a JSON object")
	}
	_, versioned := fields["oslo.version"]
	_, inside := fields["oslo.message"]
	if !versioned || !inside {
		return fields, nil
	}
	var e envelope
	if json.Unmarshal(body, &e) != nil || e.Version == nil || e.Message == nil {
		return nil, errors.New("the envelope's fields are no texts")
	}
	if !compatible(envelopeVersion, *e.Version) {
		return nil, fmt.Errorf("the envelope has version %.16q, not %s", *e.Version, envelopeVersion)
	}
	fields = nil
	if json.Unmarshal([]byte(*e.Message), &fields) != nil || fields == nil {
		return nil, errors.New("oslo.message is not a JSON object")
	}
	return fields, nil
}

// reply is a message to a caller. A heartbeat has no result and Ending is false.
type reply struct {
	Result    any     `json:"result"`
	Failure   *string `json:"failure"`
	Ending    bool    `json:"ending"`
	MessageID string  `json:"_msg_id"`
	UniqueID  string  `json:"_unique_id"`
}

// encodeReply encodes the reply to a request: a result or a failure.
func encodeReply(to *request, result any, failed *failure) ([]byte, error) {
	r := reply{Result: result, Ending: true, MessageID: to.MessageID}
	if failed != nil {
		text := failed.encode()
		r.Result, r.Failure = nil, &text
	}
	return r.seal()
}

// signOfLife encodes the heartbeat that tells a caller that its request is still being handled.
func signOfLife(to *request) ([]byte, error) {
	return (&reply{MessageID: to.MessageID}).seal()
}

func (r *reply) seal() ([]byte, error) {
	r.UniqueID = strings.ReplaceAll(uuid.NewString(), "-", "")
	return seal(r)
}

// seal puts a message into an envelope.
func seal(message any) ([]byte, error) {
	text, err := json.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("encode a message: %w", err)
	}
	version, inside := envelopeVersion, string(text)
	return json.Marshal(envelope{Version: &version, Message: &inside})
}
