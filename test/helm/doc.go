// Package helm renders the Helm chart as Helm does and holds every object to the types of the
// Kubernetes API. It is a module of its own: neither Helm nor Kubernetes is a dependency of the
// product.
package helm
