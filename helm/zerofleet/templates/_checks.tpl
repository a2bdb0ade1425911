{{- /* What a schema cannot say. */ -}}
{{- define "zerofleet.check" -}}
{{- if not (hasPrefix "/checkpoints/" .Values.config.checkpoint.dir) -}}
{{- fail (printf "config.checkpoint.dir: must be below /checkpoints, where the volume is; got %s" .Values.config.checkpoint.dir) -}}
{{- end -}}
{{- if and .Values.auth.operatorToken (not .Values.auth.existingSecret) -}}
{{- fail "auth.operatorToken: needs auth.existingSecret" -}}
{{- end -}}
{{- end -}}
