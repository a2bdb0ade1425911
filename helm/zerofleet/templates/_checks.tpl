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
{{- $ranks := int .Values.workers.ranksPerPod -}}
{{- $workers := int .Values.config.parallel.workers -}}
{{- $spares := int .Values.config.restart.spares -}}
{{- if or (mod $workers $ranks) (mod $spares $ranks) -}}
{{- fail (printf "workers.ranksPerPod: must divide config.parallel.workers (%d) and config.restart.spares (%d); got %d" $workers $spares $ranks) -}}
{{- end -}}
{{- if and (eq .Values.config.device "cuda") (not .Values.workers.resources.claims) -}}
{{- $gpus := 0 -}}
{{- range $name, $count := .Values.workers.resources.limits -}}
{{- if hasPrefix "nvidia.com/" $name -}}{{- $gpus = add $gpus (int $count) -}}{{- end -}}
{{- end -}}
{{- if ne (int $gpus) $ranks -}}
{{- fail (printf "workers.resources.limits: config.device cuda needs a GPU for each rank of a pod (workers.ranksPerPod %d), as nvidia.com/gpu: %d; got %d" $ranks $ranks (int $gpus)) -}}
{{- end -}}
{{- end -}}
{{- $longest := include "zerofleet.longestPod" . | len -}}
{{- if and (eq .Values.workers.kind "JobSet") (gt $longest 63) -}}
{{- $name := include "zerofleet.fullname" . -}}
{{- fail (printf "workers.kind: the pods of a JobSet would have names of up to %d characters, of which 63 are allowed; set fullnameOverride to at most %d characters, instead of %s" $longest (sub (add (len $name) 63) $longest) $name) -}}
{{- end -}}
{{- end -}}
