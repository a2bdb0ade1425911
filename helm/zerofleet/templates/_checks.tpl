{{- /* What a schema cannot say. */ -}}
{{- define "zerofleet.check" -}}
{{- if not (hasPrefix "/checkpoints/" .Values.config.checkpoint.dir) -}}
{{- fail (printf "config.checkpoint.dir: must be below /checkpoints, where the volume is; got %s" .Values.config.checkpoint.dir) -}}
{{- end -}}
{{- if and .Values.auth.operatorToken (not .Values.auth.existingSecret) -}}
{{- fail "auth.operatorToken: needs auth.existingSecret" -}}
{{- end -}}
{{- if and .Values.metrics.tls (not .Values.tls.enabled) -}}
{{- fail "metrics.tls: needs tls.enabled, whose certificates it uses" -}}
{{- end -}}
{{- $longest := include "zerofleet.longestPod" . | len -}}
{{- if and (eq .Values.workers.kind "JobSet") (gt $longest 63) -}}
{{- $name := include "zerofleet.fullname" . -}}
{{- fail (printf "workers.kind: the pods of a JobSet would have names of up to %d characters, of which 63 are allowed; set fullnameOverride to at most %d characters, instead of %s" $longest (sub (add (len $name) 63) $longest) $name) -}}
{{- end -}}
{{- end -}}
