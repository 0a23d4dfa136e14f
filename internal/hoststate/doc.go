// Package hoststate has the rules for an agent's state that its schema cannot express. Cells refuse
// states that break them, and agents do not send such states. Its other functions read and copy states.
package hoststate
