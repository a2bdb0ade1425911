// cert-manager's controllers for issuers with a certificate authority of their own, and its webhook, as one process that runs
// beside a cluster:
//
//	cert-manager KUBECONFIG FOLDER PORT HEALTH
//
// The webhook listens on PORT with FOLDER's tls.crt and tls.key; HEALTH is the port that answers /healthz.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cert-manager/cert-manager/internal/apis/config/shared"
	config "github.com/cert-manager/cert-manager/internal/apis/config/webhook"
	"github.com/cert-manager/cert-manager/internal/webhook"
	"github.com/cert-manager/cert-manager/pkg/controller"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	"github.com/cert-manager/cert-manager/pkg/logs"
)

// As cert-manager's own program has it where nothing else is said.
const (
	minimumBackoff = time.Hour
	maximumBackoff = 32 * time.Hour
	workers        = 5
)

func runControllers(ctx context.Context, group *errgroup.Group, kubeconfig string) error {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig:    kubeconfig,
		IssuerOptions: controller.IssuerOptions{ClusterResourceNamespace: "cert-manager"},
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: minimumBackoff,
			CertificateRequestMaximumBackoffDuration: maximumBackoff,
		},
	})
	if err != nil {
		return err
	}
	for name, construct := range controller.Known() {
		made, err := construct(factory)
		if err != nil {
			return fmt.Errorf("controller %s: %w", name, err)
		}
		group.Go(func() error { return made.Run(workers, ctx) })
	}
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	return nil
}

func run(kubeconfig, folder string, ports []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	logs.InitLogs()
	numbers := make([]int32, len(ports))
	for i, port := range ports {
		number, err := strconv.ParseInt(port, 10, 32)
		if err != nil {
			return err
		}
		numbers[i] = int32(number)
	}
	server, err := webhook.NewCertManagerWebhookServer(logs.Log, config.WebhookConfiguration{
		KubeConfig:           kubeconfig,
		SecurePort:           numbers[0],
		HealthzPort:          numbers[1],
		MetricsListenAddress: "0",
		TLSConfig: shared.TLSConfig{Filesystem: shared.FilesystemServingConfig{
			CertFile: filepath.Join(folder, "tls.crt"),
			KeyFile:  filepath.Join(folder, "tls.key"),
		}},
	})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Run(ctx) })
	if err := runControllers(ctx, group, kubeconfig); err != nil {
		return err
	}
	return group.Wait()
}

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: cert-manager KUBECONFIG FOLDER PORT HEALTH")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3:]); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
