{{- /* Names, labels and the parts that several pods share. */ -}}

{{- define "zerofleet.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "zerofleet.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "zerofleet.labels" -}}
{{ include "zerofleet.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "zerofleet.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* A default model in values.yaml would be merged into every other one. */ -}}
{{- define "zerofleet.config" -}}
{{- $config := .Values.config -}}
{{- if not $config.model -}}
{{- $config = omit $config "model" -}}
{{- if not $config.init_from -}}
{{- $config = set $config "model" (dict "preset" "gpt2-tiny") -}}
{{- end -}}
{{- end -}}
{{ toYaml $config }}
{{- end -}}

{{- /* Whoever uses it has `zerofleet.namespaceEnv`: the pod's own namespace, which an overlay of Kustomize may have set. */ -}}
{{- define "zerofleet.coordinatorHost" -}}
{{ include "zerofleet.fullname" . }}-coordinator.$(POD_NAMESPACE).svc
{{- end -}}

{{- define "zerofleet.namespaceEnv" -}}
- {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
{{- end -}}

{{- define "zerofleet.checkpointClaim" -}}
{{ .Values.checkpoints.existingClaim | default (printf "%s-checkpoints" (include "zerofleet.fullname" .)) }}
{{- end -}}

{{- define "zerofleet.coordinatorSecret" -}}
{{ .Values.tls.coordinatorSecret | default (printf "%s-coordinator-tls" (include "zerofleet.fullname" .)) }}
{{- end -}}

{{- define "zerofleet.workerSecret" -}}
{{ .Values.tls.workerSecret | default (printf "%s-worker-tls" (include "zerofleet.fullname" .)) }}
{{- end -}}

{{- define "zerofleet.scraperSecret" -}}
{{ .Values.tls.scraperSecret | default (printf "%s-scraper-tls" (include "zerofleet.fullname" .)) }}
{{- end -}}

{{- /* How Prometheus reaches the pods of a role: (dict "root" $ "role" "worker" "port" "metrics") */ -}}
{{- define "zerofleet.endpoint" -}}
port: {{ .port }}
interval: {{ .root.Values.metrics.monitors.interval }}
{{- if .root.Values.metrics.tls }}
{{- $secret := include "zerofleet.scraperSecret" .root }}
scheme: https
tlsConfig:
  serverName: zerofleet-{{ .role }}
  ca: {secret: {name: {{ $secret }}, key: ca.crt}}
  cert: {secret: {name: {{ $secret }}, key: tls.crt}}
  keySecret: {name: {{ $secret }}, key: tls.key}
{{- end }}
{{- end -}}

{{- /* A PriorityClass is the cluster's: releases of one name in two namespaces have two. */ -}}
{{- define "zerofleet.priorityClass" -}}
{{- if .Values.priorityClass.create -}}
{{ .Values.priorityClass.name | default (printf "%s.%s" (include "zerofleet.fullname" .) .Release.Namespace) }}
{{- else -}}
{{ .Values.priorityClass.name }}
{{- end -}}
{{- end -}}

{{- /* A worker's container: `containerSecurityContext`, and what `workers.securityContext` says else. */ -}}
{{- define "zerofleet.workerSecurity" -}}
{{ mergeOverwrite (deepCopy (.Values.containerSecurityContext | default dict)) .Values.workers.securityContext | toYaml }}
{{- end -}}

{{- /* What every pod of the fleet has. */ -}}
{{- define "zerofleet.podBase" -}}
automountServiceAccountToken: false
{{- with .Values.serviceAccountName }}
serviceAccountName: {{ . }}
{{- end }}
enableServiceLinks: false
securityContext: {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with include "zerofleet.priorityClass" . }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{- define "zerofleet.image.fields" -}}
image: {{ include "zerofleet.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
terminationMessagePolicy: FallbackToLogsOnError
{{- end -}}

{{- /* Alive is whoever answers; ready is who trains, or has a fleet that does. By HTTP: a kubelet's gRPC probe has no certificate to show. */ -}}
{{- define "zerofleet.probes" -}}
{{- $scheme := .Values.metrics.tls | ternary ", scheme: HTTPS" "" -}}
startupProbe:
  httpGet: {path: /healthz, port: metrics{{ $scheme }}}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: metrics{{ $scheme }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: metrics{{ $scheme }}}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end -}}

{{- /* How a client of the coordinator shows who it is; the flags of `worker` and `status`. */ -}}
{{- define "zerofleet.clientArgs" -}}
- --coordinator={{ include "zerofleet.coordinatorHost" . }}:{{ .Values.coordinator.port }}
{{- if .Values.auth.existingSecret }}
- --token-file=/etc/zerofleet/auth/token
{{- end }}
{{- if .Values.tls.enabled }}
- --tls-ca=/etc/zerofleet/tls/ca.crt
- --tls-cert=/etc/zerofleet/tls/tls.crt
- --tls-key=/etc/zerofleet/tls/tls.key
- --tls-server-name=zerofleet-coordinator
{{- end }}
{{- end -}}

{{- define "zerofleet.identityMounts" -}}
{{- if .Values.auth.existingSecret }}
- {name: auth, mountPath: /etc/zerofleet/auth, readOnly: true}
{{- end }}
{{- if .Values.tls.enabled }}
- {name: tls, mountPath: /etc/zerofleet/tls, readOnly: true}
{{- end }}
{{- end -}}

{{- /* Of `token` and `operator-token` each pod gets what it needs: (dict "root" $ "items" (list ...) "tls" SECRET) */ -}}
{{- define "zerofleet.identityVolumes" -}}
{{- if .root.Values.auth.existingSecret }}
- name: auth
  secret:
    secretName: {{ .root.Values.auth.existingSecret }}
    defaultMode: 0440
    items:
      {{- range .items }}
      - {key: {{ . }}, path: {{ . }}}
      {{- end }}
{{- end }}
{{- if .root.Values.tls.enabled }}
- name: tls
  secret:
    secretName: {{ .tls }}
    defaultMode: 0440
{{- end }}
{{- end -}}

{{- /* Whoever reads the configuration opens files that it names (data.tokenizer, init_from; epochs counts the data's samples), where workers do. */ -}}
{{- define "zerofleet.fileMounts" -}}
{{- if .Values.data.existingClaim }}
- {name: data, mountPath: /data, readOnly: true}
{{- end }}
{{- range .Values.workers.extraVolumeMounts }}
- {{- merge (dict "readOnly" true) (omit . "mountPropagation") | toYaml | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "zerofleet.fileVolumes" -}}
{{- with .Values.data.existingClaim }}
- name: data
  persistentVolumeClaim: {claimName: {{ . }}, readOnly: true}
{{- end }}
{{- with .Values.workers.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* The pod of a worker, as the template of a Job. */ -}}
{{- define "zerofleet.workerPod" -}}
{{- $ranks := int .Values.workers.ranksPerPod -}}
metadata:
  labels: {{- include "zerofleet.labels" . | nindent 4 }}
    app.kubernetes.io/component: worker
    {{- with .Values.workers.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    checksum/config: {{ include "zerofleet.config" . | sha256sum }}
    {{- with .Values.workers.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- include "zerofleet.podBase" . | nindent 2 }}
  subdomain: {{ include "zerofleet.fullname" . }}-workers
  {{- if .Values.workers.hostNetwork }}
  hostNetwork: true
  dnsPolicy: ClusterFirstWithHostNet
  {{- end }}
  restartPolicy: Never
  terminationGracePeriodSeconds: {{ .Values.workers.terminationGracePeriodSeconds }}
  {{- with .Values.workers.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  {{- with .Values.workers.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.workers.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.workers.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- range . }}
    {{- $default := dict "labelSelector" (dict "matchLabels" (include "zerofleet.workerSelector" $ | fromYaml)) }}
    - {{- merge (deepCopy .) $default | toYaml | nindent 6 }}
    {{- end }}
  {{- end }}
  tolerations:
    - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: {{ .Values.workers.nodeLossSeconds }}}
    - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: {{ .Values.workers.nodeLossSeconds }}}
    {{- with .Values.workers.tolerations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  initContainers:
    # A configuration that cannot work ends the pod here with exit code 2, and so the Job at once.
    - name: check-config
      {{- include "zerofleet.image.fields" . | nindent 6 }}
      securityContext: {{- toYaml .Values.containerSecurityContext | nindent 8 }}
      args: [plan, /etc/zerofleet/run.yaml]
      resources: {{- toYaml .Values.workers.resources | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/zerofleet/run.yaml, subPath: run.yaml, readOnly: true}
        - {name: checkpoints, mountPath: /checkpoints, readOnly: true}
        {{- with include "zerofleet.fileMounts" . | trim }}
        {{- . | nindent 8 }}
        {{- end }}
    {{- with .Values.workers.initContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  containers:
    - name: worker
      {{- include "zerofleet.image.fields" . | nindent 6 }}
      securityContext: {{- include "zerofleet.workerSecurity" . | nindent 8 }}
      args:
        - worker
        {{- include "zerofleet.clientArgs" . | nindent 8 }}
        - --device={{ .Values.config.device }}
        - --threads={{ .Values.workers.threads }}
        {{- if gt $ranks 1 }}
        - --local={{ $ranks }}
        {{- if not (kindIs "invalid" .Values.config.restart.max_per_rank) }}
        - --max-restarts={{ int64 .Values.config.restart.max_per_rank }}
        {{- end }}
        - --listen=0.0.0.0:0
        {{- else }}
        - --listen=0.0.0.0:{{ .Values.workers.port }}
        {{- end }}
        - --advertise={{ include "zerofleet.workerHost" . }}.{{ include "zerofleet.fullname" . }}-workers.$(POD_NAMESPACE).svc
        - --node=$(NODE_NAME)
        - --metrics-port={{ .Values.metrics.port }}
        {{- if .Values.metrics.tls }}
        - --metrics-tls
        {{- end }}
        - --log-level={{ .Values.logLevel }}
        - --supervised
        {{- with .Values.workers.interface }}
        - --interface={{ . }}
        {{- end }}
      env:
        {{- include "zerofleet.namespaceEnv" . | nindent 8 }}
        - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
        {{- range $name, $value := .Values.workers.env }}
        - {name: {{ $name }}, value: {{ $value | quote }}}
        {{- end }}
        {{- with .Values.workers.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        {{- if eq $ranks 1 }}
        - {name: grpc, containerPort: {{ .Values.workers.port }}}
        {{- end }}
        - {name: metrics, containerPort: {{ .Values.metrics.port }}}
        {{- range $rank := untilStep 1 $ranks 1 }}
        - {name: metrics-{{ $rank }}, containerPort: {{ add $.Values.metrics.port $rank }}}
        {{- end }}
      {{- include "zerofleet.probes" . | nindent 6 }}
      resources: {{- toYaml .Values.workers.resources | nindent 8 }}
      volumeMounts:
        - {name: checkpoints, mountPath: /checkpoints}
        - {name: shm, mountPath: /dev/shm}
        - {name: tmp, mountPath: /tmp}
        {{- if .Values.data.existingClaim }}
        - {name: data, mountPath: /data, readOnly: true}
        {{- end }}
        {{- include "zerofleet.identityMounts" . | nindent 8 }}
        {{- with .Values.workers.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    {{- with .Values.workers.sidecars }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    - name: config
      configMap: {name: {{ include "zerofleet.fullname" . }}-config}
    - name: checkpoints
      persistentVolumeClaim: {claimName: {{ include "zerofleet.checkpointClaim" . }}}
    - name: shm
      emptyDir: {medium: Memory, sizeLimit: {{ .Values.workers.sharedMemory }}}
    - name: tmp
      emptyDir: {}
    {{- with include "zerofleet.fileVolumes" . | trim }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- include "zerofleet.identityVolumes" (dict "root" . "items" (list "token") "tls" (include "zerofleet.workerSecret" .)) | nindent 4 }}
{{- end -}}

{{- define "zerofleet.workerSelector" -}}
{{ include "zerofleet.selector" . }}
app.kubernetes.io/component: worker
{{- end -}}

{{- define "zerofleet.coordinatorSelector" -}}
{{ include "zerofleet.selector" . }}
app.kubernetes.io/component: coordinator
{{- end -}}

{{- /* Pods: each has workers.ranksPerPod of the ranks and spares. */ -}}
{{- define "zerofleet.workerPods" -}}
{{ div (add (int .Values.config.parallel.workers) (int .Values.config.restart.spares)) (int .Values.workers.ranksPerPod) }}
{{- end -}}

{{- /* A Job's template cannot change, so another template is another Job: its name ends in a digest of everything the workers are given. */ -}}
{{- define "zerofleet.workersName" -}}
{{- $given := list .Values.config .Values.workers .Values.image .Values.auth .Values.tls .Values.data .Values.checkpoints .Values.metrics.port .Values.metrics.tls .Values.coordinator.port .Values.kueue .Values.priorityClass .Values.logLevel .Values.commonLabels .Values.podSecurityContext .Values.containerSecurityContext .Values.serviceAccountName .Chart.Version -}}
{{ include "zerofleet.fullname" . }}-{{ if eq .Values.workers.kind "Job" }}workers-{{ end }}{{ $given | toJson | sha256sum | trunc 8 }}
{{- end -}}

{{- /* The longest name of a pod, which a JobSet's controller refuses beyond 63 characters. */ -}}
{{- define "zerofleet.longestPod" -}}
{{ include "zerofleet.workersName" . }}-workers-0-{{ sub (include "zerofleet.workerPods" . | int) 1 }}-xxxxx
{{- end -}}

{{- /* The host name that the Job's controller gives to a pod. */ -}}
{{- define "zerofleet.workerHost" -}}
{{ include "zerofleet.workersName" . }}-{{ if eq .Values.workers.kind "JobSet" }}workers-0-{{ end }}$(JOB_COMPLETION_INDEX)
{{- end -}}

{{- define "zerofleet.jobSpec" -}}
completionMode: Indexed
completions: {{ include "zerofleet.workerPods" . }}
parallelism: {{ include "zerofleet.workerPods" . }}
backoffLimitPerIndex: {{ .Values.workers.backoffLimitPerIndex }}
# With more indexes lost than there are spares the fleet has no use for the others.
maxFailedIndexes: {{ div (int .Values.config.restart.spares) (int .Values.workers.ranksPerPod) }}
{{- if ge (int .Values.workers.ttlSecondsAfterFinished) 0 }}
ttlSecondsAfterFinished: {{ .Values.workers.ttlSecondsAfterFinished }}
{{- end }}
podReplacementPolicy: Failed
podFailurePolicy:
  rules:
    # A bad configuration, bad data or a bad checkpoint: another pod would find the same. What a sidecar exits with says nothing.
    - action: FailJob
      onExitCodes: {containerName: check-config, operator: In, values: [2, 3]}
    - action: FailJob
      onExitCodes: {containerName: worker, operator: In, values: [2, 3]}
    # Evicted, drained, preempted or on a lost node: nobody's fault.
    - action: Ignore
      onPodConditions:
        - {type: DisruptionTarget, status: "True"}
template: {{- include "zerofleet.workerPod" . | nindent 2 }}
{{- end -}}
