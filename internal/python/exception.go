package python

// Exception is an exception that a rule of Nova raises: the name of its class, and its text. Nil: none.
type Exception struct{ Class, Message string }

// NewException gives an exception of a class, by Python's name.
func NewException(class, message string) *Exception { return &Exception{class, message} }

// ValueError gives a ValueError.
func ValueError(message string) *Exception { return NewException("ValueError", message) }

// NotAFloat is what float(s) raises.
func NotAFloat(s string) *Exception {
	return ValueError("could not convert string to float: " + Quote(s))
}

// NotAnInt is what int(s) raises; it quotes at most 200 characters.
func NotAnInt(s string) *Exception {
	quoted := []rune(Quote(s))
	return ValueError("invalid literal for int() with base 10: " + string(quoted[:min(len(quoted), 200)]))
}
