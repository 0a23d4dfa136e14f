// Package osnames has the names that all deployments of OpenStack share: those of python3-os-traits
// 3.4.0 and python3-os-resource-classes 1.1.0, and those that later releases of Nova ask for.
package osnames
