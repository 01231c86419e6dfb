package meshrpc

import (
	"fmt"
	"strings"

	"github.com/rs/zerolog"
	"google.golang.org/grpc/grpclog"
)

// GRPCLog is the logger that every daemon of the mesh must give to grpclog.SetLoggerV2
// before it uses gRPC. When certificate and key files do not match, grpc's file
// provider prints both files, the private key included, in a warning; grpc's own
// logger shows warnings once GRPC_GO_LOG_SEVERITY_LEVEL asks for them. This one
// withholds every message of that component and every message with key material in
// it, whatever the level. What is wrong with the files, [Mesh.Run] logs itself.
//
// grpc's levels are moved down, since its warnings are mostly about peers that went
// away: info becomes trace, warning debug, error warn.
func GRPCLog(log zerolog.Logger) grpclog.LoggerV2 { return grpcLog{log: log} }

type grpcLog struct{ log zerolog.Logger }

func (g grpcLog) write(level zerolog.Level, text string) {
	if strings.HasPrefix(text, "[pemfile]") || strings.Contains(text, "PRIVATE KEY") {
		return
	}
	g.log.WithLevel(level).Msg(strings.TrimSuffix(text, "\n"))
}

func (g grpcLog) Info(args ...any)   { g.write(zerolog.TraceLevel, fmt.Sprint(args...)) }
func (g grpcLog) Infoln(args ...any) { g.write(zerolog.TraceLevel, fmt.Sprintln(args...)) }
func (g grpcLog) Infof(format string, args ...any) {
	g.write(zerolog.TraceLevel, fmt.Sprintf(format, args...))
}

func (g grpcLog) Warning(args ...any)   { g.write(zerolog.DebugLevel, fmt.Sprint(args...)) }
func (g grpcLog) Warningln(args ...any) { g.write(zerolog.DebugLevel, fmt.Sprintln(args...)) }
func (g grpcLog) Warningf(format string, args ...any) {
	g.write(zerolog.DebugLevel, fmt.Sprintf(format, args...))
}

func (g grpcLog) Error(args ...any)   { g.write(zerolog.WarnLevel, fmt.Sprint(args...)) }
func (g grpcLog) Errorln(args ...any) { g.write(zerolog.WarnLevel, fmt.Sprintln(args...)) }
func (g grpcLog) Errorf(format string, args ...any) {
	g.write(zerolog.WarnLevel, fmt.Sprintf(format, args...))
}

// Fatal messages are followed by the end of the process; grpclog itself sees to that.
func (g grpcLog) Fatal(args ...any)   { g.write(zerolog.ErrorLevel, fmt.Sprint(args...)) }
func (g grpcLog) Fatalln(args ...any) { g.write(zerolog.ErrorLevel, fmt.Sprintln(args...)) }
func (g grpcLog) Fatalf(format string, args ...any) {
	g.write(zerolog.ErrorLevel, fmt.Sprintf(format, args...))
}

// V is false: grpc's verbose messages are for its developers.
func (g grpcLog) V(int) bool { return false }
