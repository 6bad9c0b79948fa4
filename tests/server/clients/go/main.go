// A client in Go: lists the tables, then asks for what a request says. Prints JSON, one object a line.
//
//	client ADDRESS TOKEN LIMIT REQUEST
//
// With a LIMIT above 0 it goes away after so many batches.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

func main() {
	address, token, request := os.Args[1], os.Args[2], os.Args[4]
	limit, _ := strconv.Atoi(os.Args[3])
	if err := run(address, token, limit, []byte(request)); err != nil {
		say(map[string]any{"code": status.Code(err).String(), "error": status.Convert(err).Message()})
		os.Exit(1)
	}
}

func run(address, token string, limit int, request []byte) error {
	client, err := flight.NewClientWithMiddleware(address, nil, nil, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	tables, err := tables(ctx, client)
	if err != nil {
		return err
	}
	say(map[string]any{"tables": tables})

	info, err := client.GetFlightInfo(ctx, &flight.FlightDescriptor{Type: flight.DescriptorCMD, Cmd: request})
	if err != nil {
		return err
	}
	say(map[string]any{"info": json.RawMessage(info.AppMetadata)})
	stream, err := client.DoGet(ctx, info.Endpoint[0].Ticket)
	if err != nil {
		return err
	}
	reader, err := flight.NewRecordReader(stream)
	if err != nil {
		return err
	}
	defer reader.Release()
	batches, rows := 0, int64(0)
	for reader.Next() {
		batch := reader.RecordBatch()
		batches++
		rows += batch.NumRows()
		if limit > 0 && batches == limit {
			say(map[string]any{"batches": batches, "rows": rows, "gone": true})
			return nil
		}
		if data, err := batch.MarshalJSON(); err == nil && batch.NumRows() < 100 {
			say(map[string]any{"batch": json.RawMessage(data)})
		}
	}
	if reader.Err() != nil {
		return reader.Err()
	}
	say(map[string]any{"batches": batches, "rows": rows})
	return nil
}

func tables(ctx context.Context, client flight.Client) ([]string, error) {
	listed, err := client.ListFlights(ctx, &flight.Criteria{})
	if err != nil {
		return nil, err
	}
	names := []string{}
	for {
		info, err := listed.Recv()
		if err != nil {
			if err.Error() == "EOF" {
				return names, nil
			}
			return nil, err
		}
		names = append(names, strings.Join(info.FlightDescriptor.Path, "/"))
	}
}

func say(value map[string]any) {
	text, _ := json.Marshal(value)
	fmt.Println(string(text))
}
