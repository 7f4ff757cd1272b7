package factory

import (
	"net/url"
	"time"
)

// Provider is the family or source of models: Qwen, Meta, NVIDIA.
type Provider struct {
	ID          string
	Name        string
	Description string
	Website     string
	CreatedAt   time.Time
}

// ProviderSpec is what an operator writes about a provider.
type ProviderSpec struct {
	Description string `json:"description,omitempty"`
	Website     string `json:"website,omitempty"`
}

// Validate checks what can be checked without looking anything up.
func (s ProviderSpec) Validate() FieldErrors {
	errs := FieldErrors{}
	if s.Website != "" {
		if u, err := url.Parse(s.Website); err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" {
			errs.Add("website", "Write a full address such as https://qwen.ai.")
		}
	}
	return errs
}
