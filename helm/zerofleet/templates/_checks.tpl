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
{{- end -}}
