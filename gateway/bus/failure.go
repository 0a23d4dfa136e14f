package bus

import (
	"encoding/json"
	"fmt"
)

// The modules of the exceptions that are sent. A caller rebuilds those of nova.exception
// and of builtins as their own classes, and any other as oslo.messaging's RemoteError.
const (
	moduleNova       = "nova.exception"
	moduleDispatcher = "oslo_messaging.rpc.dispatcher"
	moduleMessaging  = "oslo_messaging.exceptions"
	moduleBuiltins   = "builtins"
	moduleCellgate   = "cellgate"
)

// failure is an exception as oslo.messaging serializes it. The caller rebuilds it as
// class(*args, **kwargs).
type failure struct {
	Class     string         `json:"class"`
	Module    string         `json:"module"`
	Message   string         `json:"message"`
	Traceback []string       `json:"tb"`
	Args      []any          `json:"args"`
	Kwargs    map[string]any `json:"kwargs"`
}

// newFailure makes an exception whose one argument is its message.
func newFailure(module, class, format string, args ...any) *failure {
	message := fmt.Sprintf(format, args...)
	return &failure{
		Class: class, Module: module, Message: message, Args: []any{message}, Kwargs: map[string]any{},
		Traceback: []string{fmt.Sprintf("%s.%s: %s\n", module, class, message)},
	}
}

// novaFailure makes an exception of Nova with its keyword arguments.
func novaFailure(class, message string, kwargs map[string]any) *failure {
	f := newFailure(moduleNova, class, "%s", message)
	f.Kwargs = kwargs
	f.Kwargs["code"] = 500
	return f
}

func noValidHost(reason string) *failure {
	return novaFailure("NoValidHost", "No valid host was found. "+reason, map[string]any{"reason": reason})
}

func allocationUpdateFailed(consumer, why string) *failure {
	return novaFailure("AllocationUpdateFailed",
		fmt.Sprintf("Failed to update allocations for consumer %s. Error: %s", consumer, why),
		map[string]any{"consumer_uuid": consumer, "error": why})
}

func noSuchMethod(method string) *failure {
	return newFailure(moduleDispatcher, "NoSuchMethod", "Endpoint does not support RPC method %.256s", method)
}

func unsupportedVersion(version, method string) *failure {
	return newFailure(moduleDispatcher, "UnsupportedVersion", "Endpoint does not support RPC version %.32s. Attempted method: %.256s", version, method)
}

// badArguments is the exception of Python for arguments that a method does not accept.
func badArguments(method, format string, args ...any) *failure {
	return newFailure(moduleBuiltins, "TypeError", "%s() %s", method, fmt.Sprintf(format, args...))
}

func (f *failure) encode() string {
	text, err := json.Marshal(f)
	if err != nil { // texts and numbers always marshal
		return `{"class": "RuntimeError", "module": "builtins", "args": [], "kwargs": {}, "tb": []}`
	}
	return string(text)
}
