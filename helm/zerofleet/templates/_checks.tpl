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
{{- if mod $workers $ranks -}}
{{- fail (printf "workers.ranksPerPod: must divide config.parallel.workers (%d); got %d" $workers $ranks) -}}
{{- end -}}
{{- /* A spare could share a pod with ranks that train: neither readiness nor the budget could tell them apart. */ -}}
{{- if and (gt $ranks 1) (gt $spares 0) -}}
{{- fail (printf "workers.ranksPerPod: must be 1 with config.restart.spares (%d); got %d" $spares $ranks) -}}
{{- end -}}
{{- $last := add (int .Values.metrics.port) (sub $ranks 1) -}}
{{- if gt (int $last) 65535 -}}
{{- fail (printf "metrics.port: must leave a port for each of %d ranks of a pod, up to 65535; got %d" $ranks (int .Values.metrics.port)) -}}
{{- end -}}
{{- range $where, $pod := dict "coordinator" .Values.coordinator "workers" .Values.workers -}}
{{- range $key, $value := $pod.podLabels -}}
{{- if or (hasPrefix "app.kubernetes.io/" $key) (hasPrefix "helm.sh/" $key) -}}
{{- fail (printf "%s.podLabels: %s is set by the chart, whose services and policies select pods by it" $where $key) -}}
{{- end -}}
{{- end -}}
{{- range $key, $value := $pod.podAnnotations -}}
{{- if hasPrefix "checksum/" $key -}}
{{- fail (printf "%s.podAnnotations: %s is set by the chart" $where $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range .Values.workers.extraVolumes -}}
{{- if has .name (list "checkpoints" "config" "shm" "state" "tmp") -}}
{{- fail (printf "workers.extraVolumes: %s is the name of a volume that the chart gives to the workers or the coordinator, which have these volumes too" .name) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.workers.hostNetwork .Values.networkPolicy.enabled (not .Values.networkPolicy.operators) -}}
{{- fail "workers.hostNetwork: the network policy would keep the workers from the coordinator, since their traffic comes from their nodes: name these in networkPolicy.operators (ipBlock), or set networkPolicy.enabled to false" -}}
{{- end -}}
{{- $resources := .Values.workers.resources | default dict -}}
{{- if eq .Values.config.device "cuda" -}}
{{- $gpus := 0 -}}
{{- range $name, $count := $resources.limits -}}
{{- if or (hasPrefix "nvidia.com/gpu" $name) (hasPrefix "nvidia.com/mig-" $name) -}}{{- $gpus = add $gpus (int $count) -}}{{- end -}}
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
